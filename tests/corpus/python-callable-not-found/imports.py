import no_such_package


def answer(prompt):
    return "hello"
