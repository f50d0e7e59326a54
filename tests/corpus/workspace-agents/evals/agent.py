from pathlib import Path


def work(prompt, request):
    with Path(request.workspace, "notes.txt").open("a") as notes:
        notes.write("two\n")
    return ""
