import json
import re


def answer(prompt):
    """Return the question itself, a text that JSON tells, or an answer after the call of a tool."""
    if prompt.startswith("tool: "):
        call = {"tool": prompt.removeprefix("tool: ")}
        return {"output_messages": [{"role": "assistant", "content": "x", "tool_calls": [call]}]}
    return json.loads(prompt.removeprefix("text: ")) if prompt.startswith("text: ") else prompt


def judge(prompt):
    """Find a statement true if the answer holds it word by word."""
    answer = prompt.partition("candidate_answer ## ]]")[2].partition("[[ ##")[0]
    found = re.findall(r"^- \[([\w-]+)\](?: \(.*?\))?: (.*)$", prompt, re.MULTILINE)
    checks = [{"id": name, "satisfied": text in answer, "reasoning": ""} for name, text in found]
    return json.dumps({"checks": checks, "overall_reasoning": "so it is"})
