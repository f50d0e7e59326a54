"""A scripted user in place of a model: it gets its goal and the conversation so far as a text."""


def talk(prompt):
    rules, begin, said = prompt.partition("\n\n")[0], "(Begin", prompt.rpartition("@[Assistant]:")[2]
    if "Goal: chat" in rules:
        text = "Hello"
    elif begin in prompt:
        text = "I want my money back"
    else:
        text = "Thank you. ###STOP###" if "refunded" in said else "1001"
    return {"text": text, "cost_usd": 0.01, "token_usage": {"input": 3, "output": 2}}
