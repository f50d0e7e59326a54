def answer(prompt):
    return f"shared {prompt}"
