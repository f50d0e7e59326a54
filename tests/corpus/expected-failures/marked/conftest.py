import pytest

STRICT = pytest.mark.xfail(reason="not yet", strict=True)
MARKS = {
    "strict": STRICT,
    "strict-pass": STRICT,
    "bare": pytest.mark.xfail,
    "crash": pytest.mark.xfail(reason="cannot be asked"),
    "other": pytest.mark.xfail(raises=ValueError),
    "elsewhere": pytest.mark.xfail("1 == 2", reason="not here"),
}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in MARKS:
            item.add_marker(MARKS[item.name])


@pytest.fixture
def torn():
    yield
    raise ValueError("torn down")
