def run(prompt): return "x"
