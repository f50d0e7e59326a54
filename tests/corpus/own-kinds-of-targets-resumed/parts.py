from pytest_agentv import Provider

from words import WORD


class Listed(Provider):
    kind = "listed"

    def open(self, environment):
        return Answering("")


class Derived(Listed):
    kind = "derived"


class Answering:
    def __init__(self, end):
        self.end = end

    def invoke(self, request):
        with open("asked.txt", "a") as file:
            file.write("x")
        return WORD + self.end


def made(target, variables, end=""):
    return Answering(end)
