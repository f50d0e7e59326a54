def say_nothing(prompt):
    return {"text": "", "finish_reason": prompt}


def talk(prompt):
    return {"text": "It is fo", "finish_reason": prompt}
