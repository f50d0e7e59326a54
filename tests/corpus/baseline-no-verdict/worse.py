def answer(prompt):
    return "45" if "tent" in prompt else "120"
