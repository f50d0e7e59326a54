import functools


def answer(prompt):
    return f"sync {prompt}"


async def answer_later(prompt):
    return f"async {prompt}"


def pieces(prompt):
    yield "gen"
    yield "erator "
    yield prompt


async def later_pieces(prompt):
    yield "async generator "
    yield prompt


class Desk:
    def answer(self, prompt):
        return f"method {prompt}"

    async def __call__(self, prompt):
        return f"object {prompt}"


desk = Desk()
method = desk.answer
partial = functools.partial(lambda word, prompt: f"{word} {prompt}", "partial")
