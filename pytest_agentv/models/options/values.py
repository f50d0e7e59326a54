"""Parses the values of run options. Each parser raises `ValueError` with a message that names the valid values."""

import math
import re
from typing import Final, Literal, TypeVar

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

Word = TypeVar("Word", bound=str)

MAX_WORKERS: Final = 50
MAX_PROCESSES: Final = 64
"""The most worker processes of `--agentv-executor`."""
CLUSTERS: Final = ("dask", "dask+tls", "tls")
"""The protocols of clusters."""
DASK_PORT: Final = 8786
_EXPECTED: Final = "expected local, processes:N or dask://HOST:PORT"
MAX_REPEAT: Final = 100
"""The most answers of a case that its verdict may stand on."""
MAX_LOST_RETRIES: Final = 10

Stop = Literal["certain", "never"]
"""When to stop asking a repeated case: when its verdict is certain, or after all answers."""
STOPS: Final[tuple[Stop, ...]] = ("certain", "never")

RunRule = Literal["always", "asked", "asked-if-paid"]
"""Which cases run if you do not ask for them."""
RUN_RULES: Final[tuple[RunRule, ...]] = ("always", "asked", "asked-if-paid")

OutputFormat = Literal["jsonl", "yaml"]
"""The format of the results file."""
OUTPUT_FORMATS: Final[tuple[OutputFormat, ...]] = ("jsonl", "yaml")

UnknownKeys = Literal["error", "warn"]
"""Level of unknown keys."""
UNKNOWN_KEYS: Final[tuple[UnknownKeys, ...]] = ("error", "warn")

Ship = Literal["bundle", "none"]
"""How workers get the files of the cases."""
SHIPS: Final[tuple[Ship, ...]] = ("bundle", "none")

Gate = Literal["cases", "run", "strict", "off"]
"""What makes a run fail: its cases, or the verdict on the run as a whole."""
GATES: Final[tuple[Gate, ...]] = ("cases", "run", "strict", "off")

BaselineUpdate = Literal["write", "add", "force"]
"""How a baseline is updated: written anew, with the new answers added, or written even in CI."""
BASELINE_UPDATES: Final[tuple[BaselineUpdate, ...]] = ("write", "add", "force")


@record
class Shard(Record):
    """One of several parts of a run, each for its own machine."""

    index: int
    """The number of the part, from 1 to `count`."""
    count: int
    """How many parts there are."""

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def parse_shard(text: str) -> Shard:
    found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text, re.ASCII)
    if found is None:
        raise ValueError(f"{text!r} is not a shard: expected INDEX/COUNT, as 2/8")
    index, count = int(found[1]), int(found[2])
    if not 1 <= index <= count:
        raise ValueError(f"there is no shard {text.strip()}: expected 1/{count or 1} to {count or 1}/{count or 1}")
    return Shard(index, count)


def parse_output_format(text: str) -> OutputFormat:
    return _word(text, OUTPUT_FORMATS, f"unknown output format {text!r}")


def parse_unknown_keys(text: str) -> UnknownKeys:
    return _word(text, UNKNOWN_KEYS, f"invalid level {text!r} for unknown keys")


def parse_gate(text: str) -> Gate:
    return _word(text, GATES, f"unknown gate {text!r}")


def parse_baseline_update(text: str) -> BaselineUpdate:
    return _word(text, BASELINE_UPDATES, f"unknown way to update the baseline {text!r}")


def parse_stop(text: str) -> Stop:
    return _word(text, STOPS, f"unknown word {text!r}")


def parse_run_rule(text: str) -> RunRule:
    return _word(text, RUN_RULES, f"unknown rule {text!r}")


def parse_executor(text: str) -> str:
    if "://" in text:
        return _parse_cluster(text.strip())
    word, colon, count = text.strip().lower().partition(":")
    if (word, colon) == ("local", ""):
        return word
    if word != "processes":
        raise ValueError(f"unknown executor {text!r}: {_EXPECTED}")
    if not count.isdecimal() or not 1 <= int(count) <= MAX_PROCESSES:
        raise ValueError(f"{count or 'no'!s} processes: expected 1 to {MAX_PROCESSES}, such as processes:2")
    return f"{word}:{int(count)}"


def is_cluster(executor: str | None) -> bool:
    """Whether an executor is a cluster, whose workers are other machines."""
    return executor is not None and "://" in executor


def is_encrypted(cluster: str) -> bool:
    """Whether the connection to a cluster is encrypted."""
    return not cluster.startswith("dask://")


def parse_run_workers(text: str) -> int:
    """Parse a number of cases in flight that some executor allows. `check_workers` checks it for the run's executor.

    Source: eval-cli-2026-01, "Worker limits and validation".
    """
    try:
        return parse_count(text, "workers", 1, MAX_WORKERS * MAX_PROCESSES)
    except ValueError:
        return check_workers(text, "local")


def check_workers(text: str, executor: str | None) -> int:
    """Return a number of cases in flight if an executor allows it: 50 for each process. Raises `ValueError`."""
    most = MAX_WORKERS
    if executor is not None and executor != "local":
        word, _, count = executor.partition(":")
        most *= int(count) if word == "processes" else MAX_PROCESSES
    return parse_count(text, "workers", 1, most, note=" (the minimum is 1)")


def _parse_cluster(text: str) -> str:
    """Return the address of a scheduler with its port."""
    word, _, place = text.partition("://")
    if word.lower() not in CLUSTERS:
        raise ValueError(f"unknown executor {text!r}: {_EXPECTED}")
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?/?", place)
    if found is None:
        raise ValueError(f"{text!r} names no scheduler: expected {word}://HOST:PORT, such as {word}://localhost:8786")
    return f"{word.lower()}://{found[1]}:{int(found[2] or DASK_PORT)}"


def parse_ship(text: str) -> Ship:
    return _word(text, SHIPS, f"unknown way to ship files {text!r}")


def parse_megabytes(text: str) -> float:
    value = _number(text, "a number of megabytes above 0")
    if value <= 0:
        raise ValueError(f"{text} megabytes are out of range: expected a number above 0")
    return value


def parse_confirm(text: str) -> int:
    return parse_count(text, "answers", 0, MAX_REPEAT)


def parse_lost_retries(text: str) -> int:
    return parse_count(text, "retries", 0, MAX_LOST_RETRIES)


def parse_retries(text: str) -> int:
    return parse_count(text, "retries", 0)


def parse_sample(text: str) -> int:
    return parse_count(text, "cases", 1)


def parse_repeat(text: str) -> int:
    return parse_count(text, "answers", 1, MAX_REPEAT)


def parse_threshold(text: str) -> float:
    return _share(text, "threshold")


def parse_pass_rate(text: str) -> float:
    return _share(text, "pass rate")


def parse_seconds(text: str) -> float:
    return _at_least_zero(text, "seconds (0 switches the timeout off)")


def parse_milliseconds(text: str) -> float:
    return _at_least_zero(text, "milliseconds")


def parse_bool(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    try:
        return known[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def _word(text: str, words: tuple[Word, ...], fault: str) -> Word:
    """Return the one of some words that a text matches, in any case."""
    for word in words:
        if text.strip().lower() == word:
            return word
    raise ValueError(f"{fault}: expected one of {', '.join(words)}")


def parse_count(text: str, what: str, least: int, most: int | None = None, *, note: str = "") -> int:
    """Return a number of things within limits. The note follows the limits in the message for a number beyond them."""
    expected = f"{least} or more" if most is None else f"{least} to {most}"
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of {what}: expected {expected}") from None
    if count < least or (most is not None and count > most):
        raise ValueError(f"{count} {what} are out of range: expected {expected}{note}")
    return count


def _share(text: str, what: str) -> float:
    value = _number(text, "a number from 0 to 1")
    if not 0 <= value <= 1:
        raise ValueError(f"{what} {text} is out of range: expected a number from 0 to 1")
    return value + 0.0  # without the minus of -0.0


def _at_least_zero(text: str, what: str) -> float:
    value = _number(text, f"0 or more {what}")
    if value < 0:
        raise ValueError(f"{text} is out of range: expected 0 or more {what}")
    return value


def _number(text: str, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number: expected {expected}") from None
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number: expected {expected}")
    return value
