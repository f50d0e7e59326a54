constant = 5


def answer(prompt):
    return "hello"


def two(prompt, system):
    return "hello"


def raises(prompt):
    raise ValueError("no key")


def nothing(prompt):
    return None
