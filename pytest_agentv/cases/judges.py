"""Loads the prompts of judges, which are texts or files, and their scripts (agentv-formats 6.3, 6.5, 6.6)."""

import os
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_agentv.cases.prompts import template_variables
from pytest_agentv.cases.references import References, Scope
from pytest_agentv.files.places import Place
from pytest_agentv.files.problems import did_you_mean

TEMPLATE_VARIABLES: Final = (
    *("candidate_answer", "expected_outcome", "reference_answer", "question"),
    *("input_messages", "expected_messages", "output_messages", "retrieved_context"),
)
_NEWER_NAMES: Final = {
    "criteria": "expected_outcome",
    "expected_output": "reference_answer",
    "input": "question",
    "answer": "candidate_answer",
    "output": "candidate_answer",
}
"""What newer AgentV calls these variables. A judge that gets the braces in place of the text judges something else."""

AGGREGATOR_VARIABLE: Final = "EVALUATOR_RESULTS_JSON"

NO_MODEL: Final = {"model": "the judge is the target's `judge_target`"}
"""The hint for a key that AgentV accepts but never reads."""

_PATH: Final = re.compile(
    r"[^\s{}]+\.(?:md|mdx|markdown|txt|prompt)|[^\n{}]*/[^\n{}]*\.(?:md|mdx|markdown|txt|prompt)|[^\s{}]*/[^\s{}]+"
)
"""A prompt that can only be the path of a file."""


@dataclass(frozen=True, slots=True)
class Template:
    """The text of a judge's prompt."""

    text: str
    is_file: bool


def load_template(prompt: str | None, prompt_path: str | None, place: Place, references: References) -> Template | None:
    """Return the template of a judge's `prompt` (a text or a path) or `prompt_path`; None without either."""
    if prompt is not None and prompt_path is not None:
        place.error("both prompt and prompt_path are there: keep one")
        return None
    if prompt_path is not None:
        return _read_template(prompt_path, place.at("prompt_path"), references)
    if prompt is None:
        return None
    if _PATH.fullmatch(prompt) or _names_a_file(prompt, references):
        return _read_template(prompt, place.at("prompt"), references)
    return Template(prompt, is_file=False)


def _read_template(path: str, place: Place, references: References) -> Template | None:
    file = references.read(path, place, is_text=True)
    return Template(file.text, is_file=True) if file else None


def _names_a_file(prompt: str, references: References) -> bool:
    path = None if "\n" in prompt else references.find(prompt).path
    return path is not None and path.is_file()


def check_judge_template(template: Template, place: Place, variables: Collection[str] = ()) -> None:
    """Note faults of a judge's template: no answer to judge, variables with other names. `variables` are the case's.

    AgentV rejects a file (not an inline text) that uses neither the answer nor the expected messages. An inline text
    without the answer may be meant, unless an unknown variable stands where the answer should be.
    """
    names = template_variables(template.text)
    newer = {name: _NEWER_NAMES[name] for name in names if name in _NEWER_NAMES and name not in variables}
    for name, ours in newer.items():
        place.error(f"the template uses {{{{ {name} }}}}, a variable of newer AgentV", f"write {{{{ {ours} }}}}")
    used = [newer.get(name, name) for name in names]
    unknown = _warn_of_unknown_variables(used, (*TEMPLATE_VARIABLES, *variables), place)
    if template.is_file and not {"candidate_answer", "expected_messages"} & set(used):
        place.error("the template uses neither {{ candidate_answer }} nor {{ expected_messages }}", unknown)
    elif not {"candidate_answer", "output_messages"} & set(used):
        note = place.error if unknown else place.warn
        note("the template does not use {{ candidate_answer }}: the judge does not see the answer", unknown)


def _warn_of_unknown_variables(used: Collection[str], known: Collection[str], place: Place) -> str | None:
    """Warn of unknown variables. Returns a hint about the first of them; None if there are none."""
    hints = {name: did_you_mean(name, known) for name in used if name not in known}
    for name, hint in hints.items():
        note = f"the template uses the unknown variable {{{{ {name} }}}}"
        place.warn(note, hint or f"known: {', '.join(known)}")
    return next((f"{{{{ {name} }}}} is not known{(hint and f'; {hint}') or ''}" for name, hint in hints.items()), None)


def check_aggregator_template(template: Template, place: Place) -> None:
    used = template_variables(template.text)
    unknown = _warn_of_unknown_variables(used, (AGGREGATOR_VARIABLE,), place)
    if AGGREGATOR_VARIABLE not in used:
        note = place.error if unknown else place.warn
        note(f"the template does not use {{{{{AGGREGATOR_VARIABLE}}}}}: the judge does not see the results", unknown)


# The folder and the command of a script.

_INTERPRETERS: Final = {".py": sys.executable, ".js": "node", ".mjs": "node", ".sh": "sh"}
"""The interpreter of a script that is given by its path only and has no `#!` line."""
INTERPRETER: Final = re.compile(r"(python|pypy|node|bun|tsx|ts-node|sh|bash|dash|zsh)[\d.]*(\.exe)?")
SCRIPT_SUFFIXES: Final = frozenset((*_INTERPRETERS, ".ts"))


def find_cwd(cwd: str | None, scope: Scope) -> Path:
    """Return the folder in which a script runs: `cwd`, or the eval file's folder if `cwd` is None or missing."""
    folder = scope.references.find_folder(cwd, scope.place.at("cwd")) if cwd else None
    return folder or scope.references.eval_dir


def script_command(script: str, cwd: Path, scope: Scope) -> tuple[str, ...]:
    """Return the command of a script that is written as a text: a shell command, or the path of a script file.

    Source: evaluation-2025-11, "Code evaluator execution" (paths); agentv-formats 6.5 (shell commands).
    """
    interpreter = _INTERPRETERS.get(Path(script.strip()).suffix)
    if interpreter is not None:
        reference = scope.references.find(script.strip(), cwd)
        if reference.path is not None and reference.path.is_file():
            path = str(reference.path)
            return (path,) if _names_its_interpreter(reference.path) else (interpreter, path)
        if "/" in script and len(script.split()) == 1:
            scope.place.at("script").error(f"file {reference.describe_missing()}")
    return "sh", "-lc", script


def _names_its_interpreter(script: Path) -> bool:
    """Whether a file is executable and begins with `#!`, so that a shell can run it directly."""
    if not os.access(script, os.X_OK):
        return False
    try:
        with script.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
