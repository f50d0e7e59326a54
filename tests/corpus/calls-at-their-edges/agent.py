import json


def answer(prompt):
    """Return the messages and the trace that the question tells as JSON."""
    return json.loads(prompt) if prompt.startswith("{") else prompt
