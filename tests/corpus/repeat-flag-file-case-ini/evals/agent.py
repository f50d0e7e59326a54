from collections import Counter

asked = Counter()


def answer(prompt):
    asked[prompt] += 1
    with open("calls.txt", "a") as file:
        print(prompt, asked[prompt], file=file)
    return "yes" if asked[prompt] % 2 else "no"
