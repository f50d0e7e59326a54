def answer(prompt):
    from words import WORD

    with open("calls.txt", "a") as file:
        file.write("the function is asked\n")
    return WORD
