from collections import Counter

asked = Counter()


def answer(prompt):
    asked[prompt] += 1
    with open("calls.txt", "a") as file:
        print(prompt, file=file)
    if prompt == "always" or (prompt == "once" and asked[prompt] == 1):
        raise TimeoutError("no answer in time")
    if prompt == "dead":
        raise ConnectionError("the line is dead")
    return "hi"
