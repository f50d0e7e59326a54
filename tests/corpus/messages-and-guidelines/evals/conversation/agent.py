def answer(prompt):
    return prompt


def talk(messages):
    return "|".join(f"{message['role']}: {message['content']}" for message in messages)
