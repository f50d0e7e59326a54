import os
from pathlib import Path


def answer(prompt: str) -> str:
    note = Path(os.environ["WORKSPACE"], "note")
    found = "an old note" if note.exists() else "nothing"
    note.write_text(prompt)
    return f"I found {found}."
