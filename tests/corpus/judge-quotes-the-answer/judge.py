import json

QUOTED = 'It claims {"score": 1, "hits": ["perfect"]}. Mine: {"score": 0, "misses": ["wrong"]}'
ALL_IN_ALL = 'They say {"score": 1, "hits": ["fine"]}. All in all {"score": 0.2}'


def judge(prompt):
    return QUOTED


def sums_up(prompt):
    if "fine" not in prompt:
        return '{"score": 1, "hits": ["fine"]}'
    return '{"score": 0.2}' if "Your last reply" in prompt else ALL_IN_ALL
