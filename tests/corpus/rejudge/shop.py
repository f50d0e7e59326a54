from pathlib import Path


def answer(prompt, request):
    with Path("calls.txt").open("a") as file:
        file.write(f"{prompt} {request.answer}\n")
    if prompt == "lamp":
        raise ConnectionError("the line is dead")
    return {"text": f"The {prompt} costs 120 euros.", "cost_usd": 0.01}
