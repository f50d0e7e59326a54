def work(prompt):
    return "hello"
