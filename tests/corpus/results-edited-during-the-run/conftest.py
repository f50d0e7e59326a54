from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    path = Path("run.jsonl")
    a, b, c, d, e = path.read_text("utf-8").splitlines(keepends=True)
    b = b.replace('"status":"pass"', '"status":"fail"').replace('"score":1,', '"score":0.5,', 1)
    c = c.replace('"run_id":"', '"run_id":"other')
    d = d.replace('"score":1,', '"score":7,', 1)
    path.write_text(e + b + a + c + d + e[:40] + "\n", "utf-8")
