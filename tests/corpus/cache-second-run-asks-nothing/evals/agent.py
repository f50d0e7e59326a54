def note(word):
    with open("calls.txt", "a") as file:
        print(word, file=file)


def answer(prompt):
    note(prompt)
    return {"text": f"The {prompt} costs 120 euros.", "cost_usd": 0.25}


def judge(prompt):
    note("judge")
    return '{"score": 1, "hits": ["polite"], "misses": []}'
