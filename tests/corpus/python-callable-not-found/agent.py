def answer(prompt):
    return "hello"


NAME = "agent"
