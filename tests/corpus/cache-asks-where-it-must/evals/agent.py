def answer(prompt):
    with open("calls.txt", "a") as file:
        print(prompt, file=file)
    if prompt == "dead":
        raise ConnectionError("the line is dead")
    return f"The {prompt} costs 120 euros."
