from collections import Counter

ANSWERS = {"always": "ggggg", "mostly": "bgggg", "seldom": "bbgbb", "never": "bbbbb"}
asked = Counter()


def answer(prompt):
    with open("calls.txt", "a") as file:
        print(prompt, file=file)
    letter = ANSWERS[prompt][asked[prompt]]
    asked[prompt] += 1
    return f"{'good' if letter == 'g' else 'bad'} {asked[prompt]}"
