"""Describes the answers of a repeated case in words."""

from collections.abc import Mapping
from typing import Final

from pytest_agentv.models.results import EvalResult, RepeatFigures
from pytest_agentv.models.text import format_number
from pytest_agentv.reporting.figures import format_score

_SOURCES: Final[Mapping[str, str]] = {
    "command line": " of the command line",
    "case": " of the case",
    "file": " of the file",
    "ini": " of the ini file",
    "default": ", the default",
}


def repeat_headline(result: EvalResult, figures: RepeatFigures) -> str:
    """Return `3 of 5 answers pass, 4 are needed (threshold 0.8, min_pass_rate 0.8 of the file)`."""
    threshold = "" if result.threshold is None else f"threshold {format_number(result.threshold)}, "
    rate = f"min_pass_rate {format_number(figures.min_pass_rate)}{_SOURCES.get(figures.min_pass_rate_source, '')}"
    return f"{passes_text(figures)}, {needed_text(figures)} ({threshold}{rate})"


def passes_text(figures: RepeatFigures) -> str:
    """Return `3 of 5 answers pass`, counting judged answers only."""
    verb = "answer passes" if figures.judged == 1 and figures.passes == 1 else "answers pass"
    return f"{figures.passes} of {figures.judged} {verb}"


def needed_text(figures: RepeatFigures) -> str:
    """Return `4 are needed`, with the number of answers if not all were judged."""
    needed = f"{figures.needed}" if figures.judged == figures.planned else f"{figures.needed} of {figures.planned}"
    text = f"{needed} {'is' if figures.needed == 1 else 'are'} needed"
    return f"{text}, {figures.errors} could not be had" if figures.errors else text


def scores_line(figures: RepeatFigures, shown: str) -> str:
    """Return the scores of all answers, and which answer the rest of the text is about."""
    scores = ", ".join(map(format_score, figures.scores))
    return f"Scores of the answers: {scores}. What follows is about {shown}."
