import unittest

from shop.cart import Cart


class Shopping(unittest.TestCase):
    def test_size_counts_pieces(self):
        cart = Cart()
        cart.add("pear", 2)
        cart.add("plum")
        self.assertEqual(cart.size(), 3)

    def test_what_is_not_there_can_be_removed(self):
        cart = Cart()
        cart.remove("fig")
        self.assertEqual(cart.size(), 0)
