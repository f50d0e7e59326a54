def answer(prompt):
    return 1 / 0
