ANSWERS = {"words": "You can return a tent within 14 days, without its receipt.", "json": '{"price": 120, "currency": "dollar"}', "other": "Nobody knows."}


def answer(prompt):
    return ANSWERS[prompt]
