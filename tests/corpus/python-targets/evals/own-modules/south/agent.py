import prices


def answer(prompt):
    from words import greeting

    return f"{greeting} {prices.TENT}"
