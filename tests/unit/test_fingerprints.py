"""What makes an earlier answer of a target invalid."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import warm

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


VALUES = """
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from pytest_agentv import Evaluator, Score

class Holds(Evaluator):
    kind = "holds"
    value: Any
    def evaluate(self, context): return Score(1.0)

@dataclass
class Rule:
    words: frozenset
    check: Callable[[str], bool] | None = None

class Client:
    def __init__(self): self.lock = threading.Lock()

class Named(Client):
    def __repr__(self): return "Named"

def at_most(longest):
    def check(text): return len(text) <= longest or check(text[1:])
    return check

def is_short(text): return len(text) < 5
"""
HASH = """
import sys
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, ".")
from values import *
try: import other
except ImportError: pass
from pytest_agentv.engine.targets.fingerprints import Fingerprints

told = []
pool = SimpleNamespace(warn_once=lambda problem, what: told.append(str(problem)))
signer = Fingerprints(pool, Path.cwd(), dry_run=False)
hashes = [signer.grading_hash([Holds(value=eval(value))], None) for value in sys.argv[1:]]
print(*hashes, *told, sep="\\n")
"""


def hash_in_new_process(folder: Path, *values: str, hash_seed: int | None = None) -> list[str]:
    """Return the hashes of evaluators that hold values, and the warnings."""
    run = warm.run if hash_seed is None else subprocess.run
    environment = {**os.environ} if hash_seed is None else {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", HASH, *values]
    return run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


DIFFERENT = [
    *("frozenset({'hello', 'bye', 'ciao', 'moin'})", "frozenset({'hello', 'bye', 'ciao'})"),
    *("[Rule({'hello', 'bye', 'ciao', 'moin'})]", "[Rule({'hello', 'bye', 'ciao'})]"),
    *("is_short", "at_most", "at_most(3)", "at_most(4)", "Rule(set(), at_most(3))", "Rule(set(), at_most(4))"),
    *("Rule", "Client", "Named()", "len", "max", "partial(at_most, 3)", "partial(at_most, 4)"),
    *(f"re.compile('{'a' * 300}')", f"re.compile('{'a' * 299}b')", "range(3)", "Path('a')", "Path('b')", "b'a'"),
]


def test_values_of_kinds_have_the_same_hash_in_each_process_and_others_another(tmp_path: Path) -> None:
    (tmp_path / "values.py").write_text(VALUES)
    first, second = (hash_in_new_process(tmp_path, *DIFFERENT, hash_seed=seed) for seed in (1, 2))
    assert first == second
    assert len(set(first)) == len(DIFFERENT)


def test_a_change_of_the_code_that_a_value_of_a_kind_refers_to_changes_its_hash(tmp_path: Path) -> None:
    (tmp_path / "values.py").write_text(VALUES)
    values = ["other.is_polite", "other.Polite", "Rule(set(), other.is_polite)", "other.Polite()"]
    (tmp_path / "other.py").write_text("class Polite: pass\ndef is_polite(text): return 'please' in text\n")
    before = hash_in_new_process(tmp_path, *values)
    (tmp_path / "other.py").write_text("class Polite: pass\ndef is_polite(text): return 'hello' in text\n")
    after = hash_in_new_process(tmp_path, *values)
    assert not {*before} & {*after}


def test_a_value_whose_state_is_not_known_is_like_that_of_no_other_run_and_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "values.py").write_text(VALUES)
    value = "[Rule({1}, Client())]"
    (first, again, *told), (second, *_) = (hash_in_new_process(tmp_path, value, value) for _ in range(2))
    assert first == again != second
    assert set(told) == {
        "values.py: holds: it holds a _thread.lock, whose state is not known, so resumed runs and the cache pay for "
        "its cases again, and comparisons leave them out (the class of the object that has it may say what counts in a "
        "`__getstate__`, or in a `__repr__`)"
    }
