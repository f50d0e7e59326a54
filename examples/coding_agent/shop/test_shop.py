import unittest

from shop import shipping, total


class Shop(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([100, 250]), 350)

    def test_shipping(self):
        self.assertEqual(shipping(1_000), 490)
