import json, pathlib

def answer(prompt):
    with (pathlib.Path(__file__).parent / "calls.txt").open("a") as file:
        file.write(json.dumps(prompt) + "\n")
    return f"You said: {prompt}"
