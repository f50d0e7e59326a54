number = 3


async def rows():
    return []


async def stream():
    yield {}


def nothing():
    return None
