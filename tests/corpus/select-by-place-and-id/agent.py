def answer(prompt, request):
    with open("calls.txt", "a") as file:
        print(request.eval_id, file=file)
    return "hello world"
