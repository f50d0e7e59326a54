def answer(prompt):
    if prompt == "dead":
        raise ConnectionError("the line is dead")
    return "hello"
