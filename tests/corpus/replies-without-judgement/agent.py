import json
from pathlib import Path

CALLS = Path(__file__).with_name("calls")

def answer(prompt, request):
    with CALLS.open("a") as file:
        print(request.eval_id, file=file)
    return json.loads(prompt)

def judge(prompt, request):
    with CALLS.open("a") as file:
        print("judge", file=file)
    is_first = CALLS.read_text().count("judge") == 1
    return {"text": '{"score": 1}', "finish_reason": "length" if is_first else "stop"}
