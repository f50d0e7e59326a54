def answer(prompt):
    with open("calls.txt", "a") as file:
        print(prompt, file=file)
    return "bad"
