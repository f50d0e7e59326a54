def make():
    return [{'id': '1', 'q': 'hi'}]
