def make():
    return []


def fails():
    raise ValueError("no database")


def number():
    return 5
