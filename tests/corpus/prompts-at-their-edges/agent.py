import json


def text(prompt):
    return prompt or "(nothing)"


def messages(messages):
    return "\n".join(json.dumps(message, ensure_ascii=False) for message in messages)
