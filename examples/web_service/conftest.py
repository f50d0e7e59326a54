import pytest


@pytest.fixture(scope="session")
def fastapi() -> None:
    """Skip the cases that name this fixture where the service cannot run."""
    pytest.importorskip("fastapi", reason="the service needs fastapi: pip install fastapi")
