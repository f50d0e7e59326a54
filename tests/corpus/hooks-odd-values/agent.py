def answer(prompt):
    with open("asked.txt", "a") as file:
        print(prompt, file=file)
    return "hello"
