import pytest


@pytest.fixture(autouse=True)
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKSPACE", str(tmp_path))
