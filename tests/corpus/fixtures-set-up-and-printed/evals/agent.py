def answer(prompt):
    with open("events.txt", "a") as file:
        print("asked", prompt, file=file)
    print("the agent thinks of", prompt)
    return "hello"
