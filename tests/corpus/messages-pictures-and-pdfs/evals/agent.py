def parts(messages):
    return " ".join(part["type"] for part in messages[0]["content"])


def text(prompt):
    return prompt
