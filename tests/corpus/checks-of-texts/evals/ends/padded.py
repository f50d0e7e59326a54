def answer(prompt):
    return f"\n  {prompt} \n\n"
