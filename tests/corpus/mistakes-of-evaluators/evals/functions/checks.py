def is_polite(answer):
    return "stupid" not in answer


def share(answer, data, vars):
    return 0.5


def price(answer, case):
    found = "120" in answer
    return {"score": float(found), "hits": ["names it"] if found else [], "misses": [] if found else ["names none"]}


async def is_short(answer):
    return len(answer) < 20


def broken(answer):
    return 1 / 0


def nothing(answer):
    return None


def much(answer):
    return 7


def other(answer, question):
    return True
