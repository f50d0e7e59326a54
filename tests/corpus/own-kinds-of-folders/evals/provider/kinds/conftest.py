import functools

import pytest


class SyncRunnable:
    def invoke(self, prompt):
        return f"invoked {prompt}"


class Both(SyncRunnable):
    """As chains of some libraries: to be called, and with an `invoke` that is not async."""

    def __call__(self, prompt):
        return f"called {prompt}"


VALUES = {
    "both": Both(),
    "method": SyncRunnable().invoke,
    "partial": functools.partial(lambda word, prompt: f"{word} {prompt}", "partial"),
    "number": 5,
    "class": int,
    "sync-invoke": SyncRunnable(),
}


@pytest.fixture
def agentv_provider(request):
    return VALUES[request.node.name]
