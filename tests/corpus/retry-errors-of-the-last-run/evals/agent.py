from pathlib import Path


def answer(prompt):
    with open("calls.txt", "a") as file:
        print(prompt, file=file)
    if prompt == "tent" and not Path("alive").exists():
        raise ConnectionError("the line is dead")
    return f"The {prompt} costs 120 euros."
