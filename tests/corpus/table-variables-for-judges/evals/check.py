from pytest_agentv.sdk import code_judge

@code_judge
def judge(case):
    return {"score": float(case.vars["number"] == "1" and "docId" in case.vars), "hits": sorted(case.vars)}
