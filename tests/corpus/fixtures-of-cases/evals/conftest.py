import pytest

opened = []


@pytest.fixture
def shop():
    print("the shop opens")
    yield
    print("the shop closes")


@pytest.fixture
def broken():
    raise RuntimeError("the key is lost")


@pytest.fixture(autouse=True)
def light():
    print("light on")


@pytest.fixture(name="my-shop")
def open_shop():
    print("my shop opens")
