"""`agentv label`: asks a person which answers of a run are good, blind to what the judge said."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_agentv.cli.compare import read
from pytest_agentv.cli.eval import ArgumentParser, UsageError, note, say
from pytest_agentv.errors import FileError, locate
from pytest_agentv.model.base import counted
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.figures import question_of, visible
from pytest_agentv.reports.how_sure import hash_of_answer, read_labels

_WORDS: Final = {"p": "pass", "f": "fail", "s": "skip", "q": "quit"}
_KEYS: Final = ("eval_id", "eval_file", "target", "answer_hash", "rater")
_EPILOG: Final = """\
A later call goes on: it keeps the labels of the file, and asks for the others. `agentv agree` reads the file.

exit codes:
  0 the labels are written, 2 there is nothing to label."""


def run(arguments: Sequence[str]) -> int:
    """Ask for labels and append each of them at once. Raises `FileError` or `UsageError`."""
    options = _create_parser().parse_args(arguments)
    out: Path = options.out
    if out.suffix != ".jsonl":
        raise UsageError(f"--out={out}: expected a name that ends in .jsonl")
    labels = list(_labels(read(options.results, ()).results, options.rater))
    if not labels:
        raise FileError(options.results, "holds no answers to label")
    known = read_labels(out, (0, 1)) if out.exists() and out.stat().st_size else ()
    labelled = {tuple(getattr(each, key) or None for key in _KEYS) for each in known}
    wanted = [each for each in labels if tuple(map(each[1].get, _KEYS)) not in labelled]
    done = len(labels) - len(wanted)
    random.shuffle(wanted)  # so that no part of the suite always gets a person who is tired
    out.parent.mkdir(parents=True, exist_ok=True)
    for number, (result, label) in enumerate(wanted, start=done + 1):
        say(visible("\n".join(_shown(result, f"{number} of {len(labels)}"))))
        word = _ask()
        if word == "quit":
            break
        if word != "skip":
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**label, "label": word}) + "\n")
            done += 1
    left = f"; {counted(left, 'answer')} without one: call it again" if (left := len(labels) - done) else ""
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
    parser.add_argument("--rater", metavar="NAME", help="Who labels, if several people do (default: not set).")
    return parser


def _labels(results: Sequence[EvalResult], rater: str | None) -> Iterator[tuple[EvalResult, dict[str, Any]]]:
    """Yield each answer with its label, but for what the person says. Where names are shared, the node id tells."""
    names = Counter((each.eval_id, each.eval_file, each.target) for each in results)
    for each in results:
        if each.error_detail is None or each.error_detail.stage == "evaluator":
            is_alone = names[each.eval_id, each.eval_file, each.target] == 1
            eval_id = each.eval_id if is_alone else each.node_id or each.eval_id
            values = (eval_id, each.eval_file, each.target, hash_of_answer(each), rater)
            yield each, {key: value for key, value in zip(_KEYS, values, strict=True) if value}


def _shown(result: EvalResult, title: str) -> Iterator[str]:
    yield f"\n--- {title}: {result.eval_id}"
    asked = {"Question": question_of(result), "Expected": result.expected_outcome, "Example": result.reference_answer}
    yield from (f"{name}: {text}" for name, text in asked.items() if text)
    yield f"Answer:\n{result.candidate_answer}\n"


def _ask() -> str:
    while True:
        try:
            given = input("[p]ass, [f]ail, [s]kip, [q]uit: ").strip().lower()
        except EOFError:
            return "quit"
        if given in _WORDS or given in _WORDS.values():
            return _WORDS.get(given, given)
