import pytest


@pytest.fixture(params=[1, 2])
def several():
    return 1
