import json
from itertools import count

numbers = count(1)


async def judge(prompt):  # in the order of the questions, which threads would not keep
    score = next(numbers) / 10
    with open("calls.txt", "a") as file:
        print(score, file=file)
    return json.dumps({"score": score, "hits": [], "misses": [], "reasoning": f"call {score}"})
