import json
import re


def answer(prompt):
    return prompt


def judge(prompt):
    """Finds a rubric met if its id stands in the answer, and says nothing of those named `silent`."""
    ids = re.findall(r"^- \[([\w-]+)\]", prompt, re.MULTILINE)
    said = prompt.partition("ANSWER:")[2]
    checks = [
        {"id": each, "satisfied": f"+{each}+" in said, "reasoning": f"About {each}."}
        for each in dict.fromkeys(ids)
        if not each.startswith("silent")
    ]
    return json.dumps({"checks": checks, "overall_reasoning": "So it is."})
