import json
from itertools import count

numbers = count(1)


def judge(prompt):
    score = next(numbers) / 10
    with open("calls.txt", "a") as file:
        print(score, file=file)
    return json.dumps({"score": score, "hits": [], "misses": [], "reasoning": f"call {score}"})
