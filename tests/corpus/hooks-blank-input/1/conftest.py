from pytest_agentv import InputMessage, TextPart


def pytest_agentv_case(case):
    text = case.question
    return case.replace(
        question=text,
        messages=(InputMessage("user", (TextPart(text),)),),
        input_messages=({"role": "user", "content": text},),
    )
