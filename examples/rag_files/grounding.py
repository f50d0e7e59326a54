"""Judges the search and the answer apart: was the right document found, and does the answer stand in what was found?"""

import re

from pytest_agentv.sdk import CodeJudgeInput, Result, code_judge


@code_judge
def judge(case: CodeJudgeInput) -> Result:
    passages = case.retrieved_context or ()
    wanted = case.config["source"]
    said = re.sub(r"\s*\[[\w.]+\]$", "", case.candidate_answer)
    facts = {
        f"{wanted} is the first document found": bool(passages) and passages[0].startswith(f"{wanted}: "),
        "the answer stands in a passage": any(said in passage for passage in passages),
    }
    hits = [fact for fact, holds in facts.items() if holds]
    misses = [fact for fact, holds in facts.items() if not holds]
    return Result(score=len(hits) / len(facts), hits=hits, misses=misses)
