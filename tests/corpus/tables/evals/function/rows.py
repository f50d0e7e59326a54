def listed():
    return [{"id": 1, "text": "eins"}, {"id": 2, "text": float("nan")}]


def yielded():
    for number, text in enumerate(["zwei"], 3):
        yield {"id": number, "text": text}
