def ask(prompt):
    return {'text': 'hello', 'cost_usd': 0.5}
