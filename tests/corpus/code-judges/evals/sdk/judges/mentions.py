from pytest_agentv.sdk import CodeJudgeInput, Result, code_judge


@code_judge
def judge(case: CodeJudgeInput) -> Result:
    words = len(case.candidate_answer.split())
    is_brief = words <= case.config["most_words"]
    return Result(score=float(is_brief), hits=[f"{words} words"] * is_brief, misses=[f"{words} words"] * (not is_brief))
