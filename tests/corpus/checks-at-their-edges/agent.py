import json


def answer(prompt):
    """Return the question itself: a text, or what JSON tells of the text, its messages and its trace."""
    if prompt.startswith("text: "):
        return json.loads(prompt.removeprefix("text: "))
    if prompt.startswith("parts: "):  # of a long text, each with how often it is there
        return "".join(part * times for part, times in json.loads(prompt.removeprefix("parts: ")))
    return json.loads(prompt) if prompt.startswith('{"output_messages"') else prompt
