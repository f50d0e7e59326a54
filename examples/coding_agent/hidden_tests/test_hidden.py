import unittest

from shop import shipping, total


class Hidden(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([]), 0)
        self.assertEqual(total([100, 250, 3]), 353)

    def test_shipping(self):
        self.assertEqual(shipping(5_000), 0)
        self.assertEqual(shipping(4_999), 490)
