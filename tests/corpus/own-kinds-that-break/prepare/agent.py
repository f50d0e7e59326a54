def ask(prompt):
    with open("calls", "a") as file:
        file.write(prompt)
    return "hello"
