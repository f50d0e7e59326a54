def answer(prompt):
    return f"The {prompt} still costs 120 euros."
