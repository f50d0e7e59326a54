import json
import re


def answer(prompt):
    return prompt


def judge(prompt):
    """Finds a sentence true unless it is impolite."""
    found = dict(re.findall(r"^- \[([\w-]+)\][^:]*: *(.*)$", prompt, re.MULTILINE))
    checks = [{"id": each, "satisfied": "impolite" not in text, "reasoning": "Seen."} for each, text in found.items()]
    return json.dumps({"checks": checks, "overall_reasoning": "Done."})
