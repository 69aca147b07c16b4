import unittest

from shop.text import slug


class Text(unittest.TestCase):
    def test_slug(self):
        self.assertEqual(slug("Red Pear"), "red-pear")
