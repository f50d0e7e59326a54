"""Warns of guidelines that a target does not get. Without them it has another task, and no error shows it."""

from pathlib import Path

from pytest_agentv.loading.problems import Hint
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.text import trim
from pytest_agentv.prompts.segments import attached, guideline_files


def lost_guidelines(case: EvalCase, question: str, target: str, settings: object) -> Hint | None:
    """Return a warning if a target gets the question of a case without its guidelines; None: it gets all of them.

    Args:
        case: The case. Guidelines that its question names (`<Attached: …>`) are not lost: an agent can read them.
        question: What the target is asked.
        target: The name of the target.
        settings: The keys of the target.
    """
    if not getattr(settings, "leaves_out_guidelines", False):
        return None
    files = [file for file in guideline_files(case.messages) if trim(file.text) and attached(file) not in question]
    if not files:
        return None
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    alone = "" if question.strip() else ", and is asked nothing else"
    message = f"target {target!r} does not get the guideline {files[0].value!r}{more}{alone}"
    hint = "write {GUIDELINES}, their texts, or {FILES}, their paths, into its command_template or stdin"
    return Hint(Path(case.path), case.line, case.eval_id, message, hint, level="warning")
