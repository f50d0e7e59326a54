def price(data): return data['price'] > 3
def misspelt(data): return dta
def nothing(): pass