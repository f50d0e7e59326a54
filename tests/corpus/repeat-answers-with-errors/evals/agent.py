from collections import Counter

ANSWERS = {"passes": "egg", "fails": "ebb", "unsure": "geb", "none": "eee", "one": "eeb"}
asked = Counter()


def answer(prompt):
    letter = ANSWERS[prompt][asked[prompt]]
    asked[prompt] += 1
    if letter == "e":
        raise ConnectionError("the line is dead")
    return "good" if letter == "g" else "bad"
