import json
import sys

config = json.load(sys.stdin).get("config")
print(json.dumps({"score": 1, "reasoning": json.dumps(config)}))
