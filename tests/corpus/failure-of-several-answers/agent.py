from itertools import count

numbers = count(1)


def answer(prompt):
    number = next(numbers)
    return f"Answer {number}: 120 euros" if number % 2 else f"Answer {number}: sold out"
