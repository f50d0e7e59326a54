from pathlib import Path


def parts(messages):
    return " ".join(part["type"] for part in messages[0]["content"])


def text(prompt):
    return prompt


def whole(messages):
    return str(messages[0]["content"])


def asked(prompt, request):
    return f"{prompt} " + " ".join(Path(file.resolved_path).name for file in request.prompt.media)


def change(messages):
    Path("evals/changing.png").write_bytes(Path("evals/dot.png").read_bytes() + b"more")
    return "done"


def remove(messages):
    Path("evals/going.png").unlink()
    return "done"
