"""What makes an earlier answer of a target invalid."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pytest_agentv.engine.overrides import Overrides
from pytest_agentv.engine.targets.fingerprints import Fingerprints
from pytest_agentv.models.targets import Target
from pytest_agentv.providers.apis.openai import OpenAi


def hash_of(folder: Path, **settings: Any) -> str | None:
    target = Target("t", "openai", OpenAi(model="gpt", **settings), path=str(folder / "targets.yaml"), line=1)
    pool: Any = SimpleNamespace(definition=lambda *_: target)
    return asyncio.run(Fingerprints(pool, folder, dry_run=False).target_hash(folder, "t", Overrides()))


def test_how_failed_requests_are_repeated_does_not_affect_an_answer(tmp_path: Path) -> None:
    usual = hash_of(tmp_path)

    assert hash_of(tmp_path, max_retries=7, retry_max_delay_ms=9, retry_status_codes=[429]) == usual
    assert hash_of(tmp_path, temperature=0.1) != usual
