def answer(prompt):
    return f"The {prompt} costs 120 euros."
