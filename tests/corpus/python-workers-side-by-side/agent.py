import threading

together = threading.Barrier(2)


def answer(prompt, request, patience):
    try:
        together.wait(patience)
    except threading.BrokenBarrierError:
        return "alone"
    return "together"
