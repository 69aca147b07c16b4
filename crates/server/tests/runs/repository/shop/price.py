"""Prices: sums and discounts."""


def total(items):
    return sum(price * count for price, count in items)


def discount(amount, percent):
    return amount - amount * percent / 10
