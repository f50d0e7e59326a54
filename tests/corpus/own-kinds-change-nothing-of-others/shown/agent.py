def ask(prompt):
    return {'output_messages': [{'role': 'assistant', 'content': 'hello', 'tool_calls': [{'tool': 'search', 'input': {'query': 'tents', 'limits': [5]}, 'duration_ms': 4}]}]}
