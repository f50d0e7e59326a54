def answer(prompt):
    with open("calls.txt", "a") as file:
        print(prompt, file=file)
    return f"The {prompt} costs 120 euros."
