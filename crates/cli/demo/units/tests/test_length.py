import unittest

from units.length import convert


class Length(unittest.TestCase):
    def test_known_values(self):
        self.assertAlmostEqual(convert(1, "km", "m"), 1000.0)
        self.assertAlmostEqual(convert(1, "ft", "m"), 0.3048)

    def test_an_unknown_unit_is_named(self):
        with self.assertRaisesRegex(ValueError, "parsec"):
            convert(1, "parsec", "parsec")
