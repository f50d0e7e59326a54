"""`agentv label`: asks a person which answers of a run are good, blind to what the judge said."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.compare import read
from pytest_agentv.cli.eval import USAGE_ERROR, ArgumentParser, UsageError, note, say
from pytest_agentv.errors import locate
from pytest_agentv.model.base import JsonObject, counted
from pytest_agentv.reports.figures import question_of, visible
from pytest_agentv.reports.how_sure import hash_of_answer, read_labels
from pytest_agentv.reports.judged_cases import JudgedCase

_KEYS: Final = {"p": "pass", "f": "fail", "s": "skip", "q": "quit"}
_PROMPT: Final = "[p]ass, [f]ail, [s]kip, [q]uit: "
_EPILOG: Final = """\
The labels of an earlier call are kept, and their answers are not asked for again. `agentv agree` reads the file.

exit codes:
  0 the labels are written, 2 there is nothing to label."""


def run(arguments: Sequence[str]) -> int:
    """Ask for labels and append each of them at once. Raises `FileError` or `UsageError`."""
    options = _create_parser().parse_args(arguments)
    out: Path = options.out
    if out.suffix != ".jsonl":
        raise UsageError(f"--out={out}: expected a name that ends in .jsonl")
    cases = [case for case in read(options.results, ()).cases if _has_answer(case)]
    if not cases:
        note(f"agentv label: {locate(options.results, None)} holds no answers")
        return USAGE_ERROR
    labels = read_labels(out, (0, 1)) if out.exists() and out.stat().st_size else ()
    known = {(each.eval_id, each.eval_file, each.target, each.answer_hash, each.rater) for each in labels}
    wanted = [label for label in _labels(cases, options.rater) if _key(label[1]) not in known]
    done = len(cases) - len(wanted)
    random.shuffle(wanted)  # else a person tires at the end of each file, and knows which cases come from one
    out.parent.mkdir(parents=True, exist_ok=True)
    for number, (case, label) in enumerate(wanted, start=len(cases) - len(wanted) + 1):
        say(visible("\n".join(_shown(case, f"{number} of {len(cases)}"))))
        word = _ask()
        if word == "quit":
            break
        if word != "skip":
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(label | {"label": word}) + "\n")
            done += 1
    left = f"; {counted(left, 'answer')} without one: call it again" if (left := len(cases) - done) else ""
    note(f"{locate(out, None)}: {counted(done, 'label')}{left}")
    return 0


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv label",
        description="Show the answers of a run in random order, without scores, and ask for a label of each.",
        epilog=_EPILOG,
    )
    parser.add_argument("results", type=Path, help="Results file of a run.")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="PATH", help="File of labels (JSONL).")
    parser.add_argument("--rater", default="", metavar="NAME", help="Who labels, if several people do (default: none).")
    return parser


def _has_answer(case: JudgedCase) -> bool:
    detail = case.result and case.result.error_detail
    return bool(case.scores) or (detail is not None and detail.stage == "evaluator")


def _labels(cases: Sequence[JudgedCase], rater: str) -> Iterator[tuple[JudgedCase, JsonObject]]:
    """Yield each case with its label, but for what the person says. Its id is the node id where that is needed."""
    ids = Counter((case.eval_id, case.eval_file, case.target) for case in cases)
    for case in cases:
        is_alone = ids[case.eval_id, case.eval_file, case.target] == 1 or case.node_id is None
        label = {"eval_id": case.eval_id if is_alone else case.node_id, "eval_file": case.eval_file}
        label |= {"target": case.target, "answer_hash": hash_of_answer(case), "rater": rater}
        yield case, {key: value for key, value in label.items() if value}


def _key(label: JsonObject) -> tuple[str | None, ...]:
    names = ("eval_id", "eval_file", "target", "answer_hash")
    return *(label.get(name) for name in names), label.get("rater", "")


def _shown(case: JudgedCase, title: str) -> Iterator[str]:
    assert case.result is not None
    result = case.result
    yield f"\n--- {title}: {case.eval_id}"
    asked = (
        ("Question", question_of(result)),
        ("Expected", result.expected_outcome),
        ("For example", result.reference_answer),
    )
    yield from (f"{name}: {text}" for name, text in asked if text)
    yield f"Answer:\n{result.candidate_answer}\n"


def _ask() -> str:
    while True:
        try:
            given = input(_PROMPT).strip().lower()
        except EOFError:
            return "quit"
        if word := next((word for key, word in _KEYS.items() if given in (key, word)), None):
            return word
