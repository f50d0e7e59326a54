def make():
    return []
