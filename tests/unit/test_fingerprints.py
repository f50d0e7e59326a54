"""What makes an earlier answer of a target invalid."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import warm

from pytest_agentv.engine.fingerprints import Fingerprints
from pytest_agentv.engine.jobs import Overrides
from pytest_agentv.model.cases import Target
from pytest_agentv.providers.api.openai import OpenAi
from pytest_agentv.store.value_hashes import hash_value


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

class Limit:
    def __init__(self, n):
        self.n = n
        self.rules = [self.short]
    def short(self, text): return len(text) <= self.n
    def __repr__(self): return "Limit()"

class State:
    def __init__(self, name, after): self.name, self.after = name, after

def machine(layers, kind):
    after = kind()
    for layer in range(layers): after = kind(State(f"{layer}-{n}", after) for n in range(3))
    return State("start", after)

def made(longest):
    class Made:
        limit = longest
        @property
        def twice(self): return longest * 2
    return Made

class NotShown:
    def __init__(self, part): self.part = part
    def __repr__(self): return "NotShown"

STYLES = {"loud": lambda text: text.upper(), "quiet": lambda text: text.lower()}
NUMBERS = [lambda: 1, lambda: 2, lambda: (1, {2, 3}), lambda: (1, {2, 4}), lambda: (lambda: 1), lambda: (lambda: 2)]

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
from pytest_agentv.engine.fingerprints import Fingerprints

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
    *("STYLES['loud']", "STYLES['quiet']", *(f"NUMBERS[{n}]" for n in range(6)), "STYLES", "NUMBERS"),
    *("Limit(3)", "Limit(4)", "made(3)", "made(4)", "made(3)()", "made(4)()", "[Named()]", "[Named(), 1]"),
    *("machine(9, set)", "machine(10, set)", "machine(40, list)", "machine(41, list)", "{1, '1'}", "{1, 1.5}"),
]


def test_values_of_kinds_have_the_same_hash_in_each_process_and_others_another(tmp_path: Path) -> None:
    (tmp_path / "values.py").write_text(VALUES)
    first, second = (hash_in_new_process(tmp_path, *DIFFERENT, hash_seed=seed) for seed in (1, 2))
    assert first == second
    assert len(set(first)) == len(DIFFERENT)


OTHER = """
from functools import lru_cache
class Polite: pass
def is_polite(text): return 'please' in text
remembered = lru_cache(is_polite)
class Single:
    def __reduce__(self): return "ONE"
ONE = Single()
"""


def test_a_change_of_the_code_that_a_value_of_a_kind_refers_to_changes_its_hash(tmp_path: Path) -> None:
    (tmp_path / "values.py").write_text(VALUES)
    values = ["other.is_polite", "other.Polite", "Rule(set(), other.is_polite)", "other.Polite()"]
    values += ["other", "other.remembered", "other.ONE", "Rule(set(), other.remembered)"]
    (tmp_path / "other.py").write_text(OTHER)
    before = hash_in_new_process(tmp_path, *values)
    (tmp_path / "other.py").write_text(OTHER.replace("please", "hello"))
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


@pytest.mark.parametrize("value", ["NotShown(bytes(60_000_000))", "NotShown([1] * 1_100_000)", "Looped()", "Node()"])
def test_the_text_of_a_value_does_not_stand_for_one_that_is_too_large_or_a_part_of_itself(
    tmp_path: Path, value: str
) -> None:
    """It said nothing of what is in it, so a resumed run kept the verdict of another value."""
    (tmp_path / "values.py").write_text(f"{VALUES}{LOOPED}")
    first, again = (hash_in_new_process(tmp_path, value) for _ in range(2))
    assert first[0] != again[0]
    assert "whose state is not known" in first[1]


LOOPED = """
class Looped:
    def __init__(self): self.all = {State("a", self)}; next(iter(self.all)).after = self.all
    def __repr__(self): return "Looped()"
class Node:
    def __init__(self): self.peers = {self}
    def __repr__(self): return "Node()"
"""


def test_equal_texts_are_hashed_alike_whether_they_are_one_object_or_several() -> None:
    first, second = "".join(["a", "b"]), "".join(["a", "b"])
    assert first is not second
    assert hash_value([first, first]) == hash_value([first, second])
    assert hash_value([first, first]) != hash_value([first, "aa"])


def test_parts_that_many_others_share_are_hashed_once() -> None:
    """Each way to them was gone: 62 seconds for 16 layers."""
    lists: Any = []
    sets: Any = frozenset()
    for layer in range(200):
        lists = [lists, lists, layer]
        sets = frozenset([(layer, sets), (sets, layer)]) if layer < 40 else sets
    assert hash_value(lists).unknown is None
    assert hash_value(sets).unknown is None


def test_the_hash_of_a_value_that_is_too_large_is_that_of_no_other_run() -> None:
    """The hash of the values of a factory is taken although a part is not known, and that of the rest still counts."""
    code = (
        "from functools import partial; from pytest_agentv.store.value_hashes import hash_value; "
        "print(hash_value(partial(len, [bytes(60_000_000)])).digest)"
    )
    command = [sys.executable, "-c", code]
    first, again = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first.strip()
    assert first != again
