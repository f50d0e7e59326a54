def answer(prompt):
    raise ConnectionError("the line is dead")
