def total(prices):
    return 0
