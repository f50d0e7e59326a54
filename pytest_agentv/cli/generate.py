"""`agentv generate rubrics`: a model writes rubrics for the cases of an eval file that have none."""

import argparse
import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import indent
from typing import Final

from pytest_agentv.cases.entries import CaseEntry, valid_id
from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cli.eval import ArgumentParser, add_targets_file, note, say
from pytest_agentv.engine.answers import invoke_with_retries
from pytest_agentv.engine.jobs import choose_target
from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.errors import AgentvError, FileError, TargetError, locate
from pytest_agentv.evaluators.answer_data import reply_objects, section
from pytest_agentv.files.places import INPUT_KEYS, OUTCOME_KEYS, first_key
from pytest_agentv.files.source import yaml_document
from pytest_agentv.model.base import Json, JsonObject, counted, is_number, trim
from pytest_agentv.model.kind_table import no_kinds
from pytest_agentv.model.messages import candidate_answer, incomplete_reason
from pytest_agentv.model.options import DEFAULT_MAX_RETRIES, DEFAULT_TIMEOUT_SECONDS, RunOptions
from pytest_agentv.model.secrets import Masker, beginning, masked, masking
from pytest_agentv.providers.base import Adapter, ProviderRequest
from pytest_agentv.reports.figures import visible
from pytest_agentv.targets.definitions import TargetsFile, find_repo_root

ATTEMPTS: Final = 3
"""How often to ask a model before giving up because no reply holds rubrics."""

SYSTEM_PROMPT: Final = """\
You write rubrics: statements that a judge later holds an answer against, one by one, without seeing anything else.

Write three to seven of them for the case that you are given.
- Each can be checked on the answer alone and is either satisfied or not.
- Each is about one thing, and no two are about the same.
- Together they cover the expected outcome, and demand nothing beyond it.

Reply with exactly one JSON object and no text before or after it:
{"rubrics": [{"id": "names-the-fee", "description": "...", "weight": 1, "required": true}]}

- id: a short name in lower case, its words joined by hyphens
- description: the statement, as one sentence
- weight: a number above 0; 1 unless the rubric counts more or less than the others
- required: whether an answer that does not satisfy it fails, whatever else is right"""


class RubricError(AgentvError):
    """A model wrote no rubrics."""


async def write_rubrics(provider: Adapter, eval_id: str, prompt: str) -> list[JsonObject]:
    """Ask for the rubrics of a case, up to three times, and mask them. Raises `RubricError`."""
    request = ProviderRequest(
        Prompt(prompt), eval_id=eval_id, system_prompt=SYSTEM_PROMPT, timeout_seconds=DEFAULT_TIMEOUT_SECONDS
    )
    reply = ""
    for _ in range(ATTEMPTS):
        attempts = await invoke_with_retries(provider, request, DEFAULT_MAX_RETRIES)
        response = attempts.response
        error = attempts.error or (response and (response.error or incomplete_reason(response.finish_reason)))
        if error or response is None:
            raise RubricError(f"case {eval_id!r}: the model could not be asked: {error}")
        reply = candidate_answer(response.output_messages)
        if rubrics := read_rubrics(reply):
            return rubrics
    shown = beginning(masked(reply), 200)
    raise RubricError(f"case {eval_id!r}: no rubrics in {ATTEMPTS} replies of the model; the last one: {shown}")


def read_rubrics(reply: str) -> list[JsonObject]:
    """Return the rubrics of a reply, as eval files have them; empty if it holds no JSON object with a list of them."""
    found: list[JsonObject] = []
    with suppress(ValueError):
        for _, each in reply_objects(reply):
            items = each.get("rubrics")
            written = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
            found = found or [item for item in written if _text(item.get("description"))]
    rubrics: dict[str, JsonObject] = {}
    for number, item in enumerate(found, start=1):
        given = masked(_text(item.get("id"))) or f"rubric-{number}"
        id_ = f"{given}-{number}" if given in rubrics else given
        weight, required = item.get("weight"), item.get("required")
        rubrics[id_] = {
            "id": id_,
            "description": masked(_text(item["description"])),
            "weight": weight if is_number(weight) and 0 <= weight <= 1_000_000 else 1,
            "required": required if isinstance(required, bool) else True,
        }
    return list(rubrics.values())


def _text(value: Json) -> str:
    """Return a text on one line without characters that files cannot hold; empty for any other value."""
    return " ".join(value.split()).encode("utf-8", "replace").decode() if isinstance(value, str) else ""


_EPILOG: Final = """\
For each case, the line of the case and its `rubrics:` are printed, to paste below its criteria.
exit codes:
  0 there are rubrics for every case, 1 something went wrong; those until then are printed, 2 wrong arguments."""


def run(arguments: Sequence[str]) -> int:
    """Generate rubrics. Print errors to standard error."""
    parser = ArgumentParser(prog="agentv generate", description="Let a model write parts of an eval file.")
    commands = parser.add_subparsers(metavar="WHAT", required=True, parser_class=ArgumentParser)
    rubrics = commands.add_parser(
        "rubrics",
        help="Let a model write the rubrics of cases that have none.",
        description="Let a model write the rubrics of all cases of an eval file that have none.",
        epilog=_EPILOG,
    )
    rubrics.add_path("file", "A .yaml or .yml eval file; it is not changed.")
    rubrics.add(
        "-t", "--target", "Target that writes them (default: the file's target, else `default`).", metavar="NAME"
    )
    add_targets_file(rubrics, " (default: searched as by `agentv eval`).")
    options = parser.parse_args(arguments)
    masker = Masker()
    try:
        with masking(masker):
            return _generate(options, masker)
    except AgentvError as error:
        note(f"agentv generate: {masker.mask(str(error))}")
        return 1


def _generate(options: argparse.Namespace, masker: Masker) -> int:
    suite = read_suite(options.file)
    if suite.cases_key is None:
        raise FileError(suite.path, "rubrics are written for .yaml and .yml files only")
    if any(entry.row is not None for entry in suite.entries):
        raise FileError(suite.path, "the cases come from a table: write `rubrics:` by hand, for all rows")
    written = {entry.index: entry for entry in suite.entries}  # all combinations of a matrix share its rubrics
    entries = [
        entry
        for entry in written.values()
        if isinstance(entry.value, dict) and "rubrics" not in entry.value and _outcome(entry.value) is not None
    ]
    if not entries:
        note(f"{locate(suite.path, None)}: no case without rubrics")
        return 0
    cwd = Path.cwd()
    settings = RunOptions(target=options.target, targets_file=options.targets_file)
    pool = TargetPool(settings, Places(find_repo_root(cwd), cwd), masker, no_kinds)
    name = _writer(pool.file(suite.path.parent), choose_target(settings, suite.target))
    note(f"Asking target {name!r} for the rubrics of {counted(len(entries), 'case')}")
    asyncio.run(_print_all(suite.path, entries, pool, name))
    return 0


def _outcome(case: JsonObject) -> str | None:
    outcome = case.get(first_key(case, OUTCOME_KEYS) or "")
    return outcome if isinstance(outcome, str) and outcome.strip() else None


def _writer(file: TargetsFile, name: str) -> str:
    """Return the chosen target if it is a model, else its judge target."""
    models = sorted(kind for kind in file.kinds.table if getattr(file.kinds.table.get(kind), "judges_itself", False))
    chosen = file.find(name)
    judge = chosen if chosen.judge_target is None else file.find(chosen.judge_target)
    found = next((definition for definition in (chosen, judge) if definition.kind in models), None)
    if found is None:
        raise TargetError(
            f"{locate(file.path, chosen.line)}: target {chosen.name!r} is no model that could write rubrics (provider: "
            f"{chosen.provider}); name one with --target: its provider is one of {', '.join(models)}"
        )
    return found.name


async def _print_all(path: Path, entries: Iterable[CaseEntry], pool: TargetPool, name: str) -> None:
    """Print the rubrics of each case in turn as soon as the model replies."""
    try:
        provider = (await pool.prepare(path.parent, name)).provider
        for entry in entries:
            eval_id = valid_id(entry.value) or f"case {entry.index + 1}"
            rubrics = await write_rubrics(provider, eval_id, _prompt(entry.value))
            block = yaml_document({"rubrics": rubrics}).removeprefix("---\n")
            say(visible(f"# {locate(path, entry.line)}: {eval_id}\n{indent(block, '    ')}"))
    finally:
        await pool.close()


def _prompt(case: JsonObject) -> str:
    """Return the non-empty sections of a case: `question`, else the first user message that is a text, and others.

    Source: agentv-formats 9.3.
    """
    messages = case.get(first_key(case, INPUT_KEYS) or "")
    messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages or ()
    said = [each.get("content") for each in messages if isinstance(each, dict) and each.get("role") == "user"]
    asked = [text for text in (case.get("question"), *said) if isinstance(text, str) and text.strip()]
    reference = case.get("reference_answer")
    texts = {
        "question": asked[0] if asked else "",
        "expected_outcome": _outcome(case) or "",
        "reference_answer": reference if isinstance(reference, str) else "",
    }
    return "\n\n".join(section(name, text) for name, text in texts.items() if trim(text))
