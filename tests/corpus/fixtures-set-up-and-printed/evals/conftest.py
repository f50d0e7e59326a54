import logging

import pytest


def note(text):
    with open("events.txt", "a") as file:
        print(text, file=file)


@pytest.fixture(scope="session", autouse=True)
def town():
    note("town opens")
    yield
    note("town closes")


@pytest.fixture
def shop(request):
    print("the shop opens")
    logging.getLogger("shop").warning("low on tents")
    note(f"shop opens for {request.node.name}")
    yield
    note("shop closes")


@pytest.fixture
def fails():
    raise RuntimeError("no key to the shop")


@pytest.fixture
def closed():
    pytest.skip("closed today")
