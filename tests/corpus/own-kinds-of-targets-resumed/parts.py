from pytest_agentv import Provider

from words import WORD


class Listed(Provider):
    kind = "listed"

    def open(self, environment):
        return Answering()


class Derived(Listed):
    kind = "derived"


class Answering:
    def invoke(self, request):
        with open("asked.txt", "a") as file:
            file.write("x")
        return WORD
