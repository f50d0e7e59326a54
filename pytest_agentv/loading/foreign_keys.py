"""Replacements for the keys and names of other tools. Import this lazily: few files have them."""

import re
from collections.abc import Mapping
from typing import Final

from pytest_agentv.loading.keys import REFUSED

_ASKED: Final = "the target gives the answer; the ideal one is `expected_output`"
_CHECKED: Final = "write the checks as a list under `assert`"
_CONTEXTS: Final = "no check reads the ideal context: as a variable under `vars`, prompts of `llm_judge` may use it"

INSTEAD: Final[Mapping[str, str]] = {
    **REFUSED,
    "actual_output": _ASKED,
    "answer": "write the ideal answer as `expected_output`, or the variable under `vars`",
    "commandLineOptions": "options of a run are those of pytest: see `pytest --help`",
    "completion_time": "the answer is timed: write `latency` under `assert`",
    "expectations": "write the ideal answer as `expected_output`, facts and guidelines as sentences under `assert`",
    "expected_tools": "write `tool-called: search` under `assert`, or a `tool_trajectory`",
    "ideal": "write `expected_output`",
    "metrics": _CHECKED,
    "outputPath": "give --agentv-out",
    "prompt": "write `input`",
    "provider": "write `target`, and the provider in targets.yaml",
    "query": "write `input`, or the variable under `vars`",
    "redteam": "nothing makes up attacks: write them as cases",
    "reference_contexts": _CONTEXTS,
    "report_evaluators": "no check judges a whole run: options such as --agentv-min-rate and --agentv-baseline do",
    "retrieval_context": "the target reports what it looked up, as `retrieved_context`",
    "scenarios": "write `matrix`, or a table: `evalcases: {from: cases.csv}`",
    "scorer": _CHECKED,
    "scorers": _CHECKED,
    "skip_defaults": "the evaluators of a case replace those of its file",
    "solver": "a target asks the model: write it into targets.yaml",
    "testing_criteria": _CHECKED,
    "transform": REFUSED["preprocessors"],
}
"""Keys of a file or a case."""

MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("metrics", "scorer", "scorers"), "assert"),
    **dict.fromkeys(("prompt", "query"), "input"),
}
"""Keys of a case that replace ours in other tools, so that ours is missing."""

_CHECKS: Final = re.compile(r"__expected\d*")
_COLUMNS: Final[Mapping[str, str]] = {
    "__prefix": "write it into `input` under `case`",
    "__suffix": "write it into `input` under `case`",
    "__threshold": "write `threshold: '{{ __threshold | float }}'` under `case`",
}

NAMES: Final[Mapping[str, str]] = {
    "output": "the answer is called 'answer' here",
    "actual_output": "the answer is called 'answer' here",
    "context": "'vars' and 'case' have what promptfoo keeps in its context",
}
"""Names in Python code."""


def instead_of_key(key: str) -> str | None:
    """Return the replacement for a key or a column; None for any other."""
    if _CHECKS.fullmatch(key):
        return "write the checks once for all rows, under `case`: assert: [contains: '{{ answer }}']"
    return INSTEAD.get(key) or _COLUMNS.get(key)


def column_fault(name: str) -> tuple[str, str] | None:
    """Return what is lost if a column is not read, and what to write; None for a column without a known meaning."""
    if _CHECKS.fullmatch(name):
        return "no check is made of its cells", instead_of_key(name) or ""
    return ("its cells change nothing", _COLUMNS[name]) if name in _COLUMNS else None
