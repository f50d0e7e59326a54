def answer(prompt):
    return "Sold out." if prompt in ("lamp", "rope") else f"The {prompt} costs 120 euros."
