def judge(answer):
    return {'score': 1, 'details': {'a': 1}}
