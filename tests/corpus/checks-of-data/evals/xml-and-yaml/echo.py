def answer(prompt):
    return "- " * 101 + "tent" if prompt == "deep" else prompt
