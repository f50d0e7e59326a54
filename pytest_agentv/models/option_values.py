"""Parses the values of run options. Each parser raises `ValueError` with a message that names the valid values."""

import re
from typing import Final, Literal

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

MAX_WORKERS: Final = 50
MAX_REPEAT: Final = 100
"""The most answers of a case that its verdict may stand on."""

Stop = Literal["certain", "never"]
"""When no further answer of a case is asked: once none could change its verdict, or never before all were."""
STOPS: Final[tuple[Stop, ...]] = ("certain", "never")

RunRule = Literal["always", "asked", "asked-if-paid"]
"""Which cases run without being asked for."""
RUN_RULES: Final[tuple[RunRule, ...]] = ("always", "asked", "asked-if-paid")

OutputFormat = Literal["jsonl", "yaml"]
"""The format of the results file."""
OUTPUT_FORMATS: Final[tuple[OutputFormat, ...]] = ("jsonl", "yaml")

UnknownKeys = Literal["error", "warn"]
"""Level of unknown keys."""
UNKNOWN_KEYS: Final[tuple[UnknownKeys, ...]] = ("error", "warn")


MAX_LOST_RETRIES: Final = 10
MAX_PROCESSES: Final = 64
"""The most worker processes of `--agentv-executor`."""
CLUSTERS: Final = ("dask", "dask+tls", "tls")
"""The protocols of clusters."""
DASK_PORT: Final = 8786

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
    """One of several parts of a run, each for a machine of its own."""

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
    for known in OUTPUT_FORMATS:
        if text.strip().lower() == known:
            return known
    raise ValueError(f"unknown output format {text!r}: expected one of {', '.join(OUTPUT_FORMATS)}")


def parse_unknown_keys(text: str) -> UnknownKeys:
    for known in UNKNOWN_KEYS:
        if text.strip().lower() == known:
            return known
    raise ValueError(f"invalid level {text!r} for unknown keys: expected one of {', '.join(UNKNOWN_KEYS)}")


def parse_gate(text: str) -> Gate:
    for known in GATES:
        if text.strip().lower() == known:
            return known
    raise ValueError(f"unknown gate {text!r}: expected one of {', '.join(GATES)}")


def parse_baseline_update(text: str) -> BaselineUpdate:
    for known in BASELINE_UPDATES:
        if text.strip().lower() == known:
            return known
    raise ValueError(f"unknown way to update the baseline {text!r}: expected one of {', '.join(BASELINE_UPDATES)}")


def parse_confirm(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of answers: expected 0 or more") from None
    if not 0 <= count <= MAX_REPEAT:
        raise ValueError(f"{count} answers are out of range: expected 0 to {MAX_REPEAT}")
    return count


def parse_stop(text: str) -> Stop:
    for known in STOPS:
        if text.strip().lower() == known:
            return known
    raise ValueError(f"unknown word {text!r}: expected one of {', '.join(STOPS)}")


def parse_run_rule(text: str) -> RunRule:
    for known in RUN_RULES:
        if text.strip().lower() == known:
            return known
    raise ValueError(f"unknown rule {text!r}: expected one of {', '.join(RUN_RULES)}")


def parse_executor(text: str) -> str:
    if "://" in text:
        return _parse_cluster(text.strip())
    word, colon, count = text.strip().lower().partition(":")
    if (word, colon) == ("local", ""):
        return word
    if word != "processes":
        raise ValueError(f"unknown executor {text!r}: expected local, processes:N or dask://HOST:PORT")
    if not count.isdecimal() or not 1 <= int(count) <= MAX_PROCESSES:
        raise ValueError(f"{count or 'no'!s} processes: expected 1 to {MAX_PROCESSES}, such as processes:2")
    return f"{word}:{int(count)}"


def is_cluster(executor: str | None) -> bool:
    """Whether an executor is a cluster, whose workers are other machines."""
    return executor is not None and "://" in executor


def is_encrypted(cluster: str) -> bool:
    """Whether the connection to a cluster is encrypted."""
    return not cluster.startswith("dask://")


def _parse_cluster(text: str) -> str:
    """Return the address of a scheduler with its port."""
    word, _, place = text.partition("://")
    if word.lower() not in CLUSTERS:
        raise ValueError(f"unknown executor {text!r}: expected local, processes:N or dask://HOST:PORT")
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?/?", place)
    if found is None:
        raise ValueError(f"{text!r} names no scheduler: expected {word}://HOST:PORT, such as {word}://localhost:8786")
    return f"{word.lower()}://{found[1]}:{int(found[2] or DASK_PORT)}"


def parse_ship(text: str) -> Ship:
    for known in SHIPS:
        if text.strip().lower() == known:
            return known
    raise ValueError(f"unknown way to ship files {text!r}: expected one of {', '.join(SHIPS)}")


def parse_megabytes(text: str) -> float:
    value = _number(text, "a number of megabytes above 0")
    if value <= 0:
        raise ValueError(f"{text} megabytes are out of range: expected a number above 0")
    return value


def parse_lost_retries(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of retries: expected 0 or more") from None
    if not 0 <= count <= MAX_LOST_RETRIES:
        raise ValueError(f"{count} retries are out of range: expected 0 to {MAX_LOST_RETRIES}")
    return count


def parse_sample(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of cases: expected 1 or more") from None
    if count < 1:
        raise ValueError(f"{count} cases are out of range: expected 1 or more")
    return count


def parse_threshold(text: str) -> float:
    return _share(text, "threshold")


def parse_pass_rate(text: str) -> float:
    return _share(text, "pass rate")


def parse_repeat(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of answers: expected 1 to {MAX_REPEAT}") from None
    if not 1 <= count <= MAX_REPEAT:
        raise ValueError(f"{count} answers are out of range: expected 1 to {MAX_REPEAT}")
    return count


def parse_workers(text: str) -> int:
    """Source: eval-cli-2026-01, "Worker limits and validation"."""
    return check_workers(_workers(text), MAX_WORKERS)


def parse_run_workers(text: str) -> int:
    """Parse a number of workers that an executor may allow; `most_workers` and `check_workers` say if it does."""
    count = _workers(text)
    return check_workers(count, MAX_WORKERS if count < 1 else MAX_WORKERS * MAX_PROCESSES)


def most_workers(executor: str | None) -> int:
    """Return how many cases may be in flight: 50 for each process."""
    if executor is None or executor == "local":
        return MAX_WORKERS
    word, _, count = executor.partition(":")
    return MAX_WORKERS * (int(count) if word == "processes" else MAX_PROCESSES)


def check_workers(count: int, most: int) -> int:
    """Return a number of workers that is in range. Raises `ValueError`."""
    if not 1 <= count <= most:
        raise ValueError(f"{count} workers are out of range: expected 1 to {most} (the minimum is 1)")
    return count


def _workers(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of workers: expected 1 to {MAX_WORKERS}") from None


def parse_seconds(text: str) -> float:
    return _at_least_zero(text, "seconds (0 switches the timeout off)")


def parse_milliseconds(text: str) -> float:
    return _at_least_zero(text, "milliseconds")


def parse_retries(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number of retries: expected 0 or more") from None
    if count < 0:
        raise ValueError(f"{count} retries are out of range: expected 0 or more")
    return count


def parse_bool(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    try:
        return known[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither true nor false") from None


def _share(text: str, what: str) -> float:
    value = _number(text, "a number from 0 to 1")
    if not 0 <= value <= 1:
        raise ValueError(f"{what} {text} is out of range: expected a number from 0 to 1")
    return value


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
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN is the one value unequal to itself
        raise ValueError(f"{text} is not a finite number: expected {expected}")
    return value
