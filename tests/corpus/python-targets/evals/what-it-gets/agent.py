import json
from pathlib import Path


def text(prompt):
    return prompt


def messages(messages):
    return json.dumps(messages)


def asked(prompt, request):
    names = [Path(path).name for path in request.file_paths]
    return f"{request.eval_id}, attempt {request.attempt}, files {names}"


def with_arguments(prompt, *, temperature, words=()):
    return f"{prompt} at {temperature} with {', '.join(words)}"
