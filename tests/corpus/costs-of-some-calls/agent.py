from itertools import count

answers, judgements = count(), count()


def priced(prompt):
    return {"text": "120 euros", "token_usage": {"input": 10, "output": 5}, "cost_usd": 0.25}


def silent(prompt):
    return "120 euros"


def answer(prompt):
    return silent(prompt) if next(answers) % 2 else priced(prompt)


def judge(prompt):
    reply = {"text": '{"score": 1, "hits": [], "misses": []}'}
    number = next(judgements)
    if number != 1:
        reply["token_usage"] = {"input": 10, "output": 5}
    if number in (0, 2):
        reply["cost_usd"] = 0.25
    return reply
