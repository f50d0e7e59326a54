import json, sys

case = json.load(sys.stdin)
wanted = case["config"]["pattern"].replace("{{ input }}", case["question"])
print(json.dumps({"score": float(wanted in case["candidate_answer"])}))
