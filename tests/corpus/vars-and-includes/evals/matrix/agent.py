def answer(prompt):
    return prompt.strip()
