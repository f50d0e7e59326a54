import json
import re
from pathlib import Path

REPLIES = json.loads(Path(__file__).with_name("replies.json").read_text("utf-8"))


def answer(prompt):
    given = REPLIES[prompt]
    return given["answer"] if isinstance(given, dict) else "an answer"


def judge(prompt):
    """Give the reply of the case that the question names."""
    given = REPLIES[re.search(r"question ## ]]\n(?:<[^>]*>)?([\w-]+)", prompt)[1]]
    return given["reply"] if isinstance(given, dict) else given
