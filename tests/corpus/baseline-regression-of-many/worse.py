from collections import Counter

asked = Counter()


def answer(prompt):
    asked[prompt] += 1
    return "It costs 120 euros." if asked[prompt] % 2 else "I do not know."
