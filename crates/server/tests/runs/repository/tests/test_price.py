import unittest

from shop.price import discount, total


class Price(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([(3, 2), (5, 1)]), 11)
        self.assertEqual(total([]), 0)

    def test_discount(self):
        self.assertEqual(discount(100, 10), 90)
        self.assertEqual(discount(100, 0), 100)


if __name__ == "__main__":
    unittest.main()
