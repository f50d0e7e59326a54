def answer(prompt):
    with open("calls.txt", "a") as file:
        print(prompt, file=file)
    return "Sold out." if prompt == "rope" else f"The {prompt} costs 120 euros."
