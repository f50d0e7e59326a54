def answer(prompt):
    return "It costs 120 euros."
