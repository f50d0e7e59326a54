import pytest


@pytest.fixture(scope="session")
def fastapi() -> None:
    """Skip the cases that name this fixture where the service cannot run."""
    for package in ("fastapi", "httpx"):
        pytest.importorskip(package, reason=f"the service needs {package}: pip install fastapi httpx")
