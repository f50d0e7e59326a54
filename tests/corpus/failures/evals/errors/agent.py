def answer(prompt):
    if prompt == "raise":
        raise RuntimeError("the index is empty")
    if prompt == "number":
        return 120
    return "120 euros"
