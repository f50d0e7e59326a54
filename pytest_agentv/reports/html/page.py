"""Renders the report, and packs what an opened case shows.

Jinja2 escapes every text, so that no text of a model becomes markup.
"""

import base64
import gzip
import hashlib
import html
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pytest_agentv.model.base import Json, JsonObject, counted, is_amount
from pytest_agentv.model.messages import Costs, Message
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.failure import Start
from pytest_agentv.reports.figures import (
    case_name,
    content_text,
    duration_of,
    format_cost,
    format_duration,
    format_score,
    known_part,
    percent,
    place_of,
    question_of,
    spent_of,
)
from pytest_agentv.reports.html import overview
from pytest_agentv.reports.html.overview import (
    STATUSES,
    CaseRow,
    JudgementRow,
    cases_of,
    in_order,
    judgements_of,
    past_of_cases,
    spelled,
    when_of,
)
from pytest_agentv.reports.judged_cases import CaseStatus, cases_of_run, measure_of
from pytest_agentv.reports.read import read_view
from pytest_agentv.reports.summary import BIN_LABELS, extremes, score_figures, score_statistics
from pytest_agentv.reports.verdict import compared
from pytest_agentv.reports.view import RunView
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.store.writers import Image, named_in, without_images

# Thumbnails: the images in results, up to a limit of bytes, and only types that are safe in a browser.

MOST_BYTES: Final = 100_000
"""The limit of one image."""
MOST_IN_ALL: Final = 3_000_000
"""The limit of all images of a report. Later ones are shown by name only."""


class Gallery:
    """The images of a report."""

    def __init__(self) -> None:
        self._left = MOST_IN_ALL
        self.is_used = False
        """Whether any image is shown."""

    def take_out(self, value: Json) -> tuple[Json, list[JsonObject]]:
        """Return a text, or other JSON, with names in place of images; and these images."""
        found: list[JsonObject] = []
        return without_images(value, lambda image: found.append(self._shown(image))), found

    def _shown(self, image: Image) -> JsonObject:
        """Return an image's name, type and size, and its bytes if they fit into the limit."""
        size = image.size or 0
        kind = _drawable(image.data) if 0 < size <= min(MOST_BYTES, self._left) else None
        if kind is None:
            return {"text": image.text}
        self._left -= size
        self.is_used = True
        return {"text": image.text, "source": f"data:{kind};base64,{image.data}"}


def _drawable(data: str) -> str | None:
    """Return the type of an image by its bytes; None: not safe to draw."""
    try:
        found = base64.b64decode(data, validate=True)
    except ValueError:
        return None
    return next((kind for mark, kind in _KINDS.items() if found.startswith(mark)), None)


_KINDS: Final = {b"\x89PNG\r\n\x1a\n": "image/png", b"GIF8": "image/gif", b"\xff\xd8\xff": "image/jpeg"}
"""Other types, such as SVG, are shown by name only."""


# The page.

CHUNK: Final = 50
"""The number of cases in a block. Only the block of an opened case is unpacked."""

_PLACES: Final = 4
STATIC_ROWS: Final = 40
"""The number of worst cases that can be read without scripts."""

_SCRIPTS: Final = ("texts.js", "words.js", "state.js", "list.js", "messages.js", "timing.js", "case.js", "start.js")
_PACKAGE: Final = "pytest_agentv.reports.html"

_BUTTONS: Final = {"fail": "✕ Failed", "error": "! Errors", "pass": "✓ Passed", "scored": "○ Scored"}


def write_report(path: Path, run: RunView, earlier: Sequence[RunView] = (), start: Start | None = None) -> int:
    """Write a report and return its size in bytes. Raises `FileError` if it cannot be written."""
    text = report_text(run, earlier, start)
    write_atomically(path, text)
    return len(text.encode())


def write_run(path: Path, run: RunView, base: Path | None, options: RunOptions, start: Start) -> None:
    """Write the report of a run that ends, compared with the file `base`. Raises `AgentvError` or `OSError`."""
    run = run.replace(cases=tuple(cases_of_run(run.results)))
    earlier = None if base is None else read_view(base)
    run = compared(run, earlier, margin=options.margin, is_confirming=options.confirm > 0)
    write_report(path, run, start=start)


def report_text(run: RunView, earlier: Sequence[RunView] = (), start: Start | None = None) -> str:
    """Return the page of a run, as `compared` returns it; `earlier` are further runs, for the history."""
    statistics, base = run.statistics, run.base
    assert statistics is not None
    cases = cases_of(run)
    runs = in_order([*earlier, *([base] if base else []), run])
    style, script = _asset("report.css"), "".join(map(_asset, _SCRIPTS))
    verdict = overview.headline(cases, run)
    share = f"{percent(statistics.rate.mean)} " if statistics.rate is not None else ""
    gallery = Gallery()
    data = list(blocks(cases, past_of_cases(runs), gallery, start))
    environment = Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Hidden characters become visible in everything that templates print, except in our own markup.
        finalize=lambda value: spelled(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    text = environment.get_template(
        "report.html"
    ).render(
        policy=_policy(script, style, has_images=gallery.is_used),
        style=Markup(style),  # noqa: S704 - our own template
        script=Markup(script),  # noqa: S704 - our own template
        title=f"{verdict.sign} {share}– agentv report",
        run=run,
        when=when_of(run),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        base=base,
        cases=cases,
        shown=cases[:STATIC_ROWS],
        headline=verdict,
        figures=overview.figures(cases, run),
        firsts=overview.firsts(cases),
        broken=sum(case.is_broken for case in cases),
        also=list(overview.also(run)),
        targets=overview.target_rows(cases),
        reasons=overview.reasons(cases),
        tags=overview.rate_plot(cases, run, "tag", lambda case: case.result.tags or ()),
        files=overview.rate_plot(cases, run, "file", lambda case: [case.file]),
        histograms=overview.histograms(cases),
        trades=overview.trade_plots(cases),
        history=overview.history_plot(runs),
        scores=dict(_score_rows(run)),
        counts=_counts(cases),
        measure=measure_of(run.cases),
        all_pass=all(case.status == "pass" for case in cases),
        blocks=data,
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def _score_rows(run: RunView) -> Iterator[tuple[str, str]]:
    """Yield the statistics of the scores, each with its name.

    Source: eval-cli-2026-01, "Statistics and distribution".
    """
    statistics = score_statistics(run.results)
    if statistics is None:
        return
    yield from score_figures(statistics)
    yield from ((f"Scores of {name}", f"{count:,}") for name, count in zip(BIN_LABELS, statistics.bins, strict=True))
    for title, results in zip(("Highest", "Lowest"), extremes(run.results), strict=True):
        yield title, ", ".join(f"{format_score(each.score)} {case_name(each)}" for each in results)


def _asset(name: str) -> str:
    return (files(_PACKAGE) / "assets" / name).read_text("utf-8")


def _policy(script: str, style: str, *, has_images: bool) -> Markup:
    """Return the Content-Security-Policy. It allows only our script and style, by hash, and images in this file."""
    images = "img-src data:; " if has_images else ""
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; {images}base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Markup(html.escape(policy, quote=False))  # noqa: S704 - it holds only our own hashes


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _counts(cases: Sequence[CaseRow]) -> list[tuple[str, str, int]]:
    """Return the buttons that filter by outcome."""
    found = [(key, label, sum(case.status == key for case in cases)) for key, label in _BUTTONS.items()]
    flaky = ("flaky", "± Flaky", sum(case.is_flaky for case in cases))
    scored = found[3:] if found[3][2] else []
    return [("", "All", len(cases)), *found[:2], flaky, found[2], *scored]


# Packs the data of the cases: gzip, then base64, which cannot hold `</script>`.


def blocks(
    cases: Sequence[CaseRow], history: Mapping[str, Sequence[JsonObject]], gallery: Gallery, start: Start | None
) -> Iterator[tuple[str, str]]:
    """Yield the list of the cases, then their details in blocks."""
    chunks = range(0, len(cases), CHUNK)
    yield ("index", _packed(index_of(cases) | {"chunk": CHUNK, "chunks": len(chunks)}))
    for number, first in enumerate(chunks):
        shown = cases[first : first + CHUNK]
        details = [detail_of(case, history.get(case.key, ()), gallery, start) for case in shown]
        yield f"d{number}", _packed(details)


def index_of(cases: Sequence[CaseRow]) -> dict[str, Json]:
    """Return the data of the list: each name once, and a short row for each case."""
    files = _numbered(case.file for case in cases)
    tags = _numbered(tag for case in cases for tag in case.result.tags or ())
    targets = _numbered(case.target for case in cases)
    evaluators = _numbered(each.name for case in cases for each in case.judgements if each.depth == 0)
    frequent = _numbered(reason.name for reason in overview.reasons(cases))
    rows = [
        [
            case.judged.eval_id,
            case.key,
            files[case.file],
            [tags[tag] for tag in case.result.tags or ()],
            targets[case.target],
            STATUSES.index(case.status),
            round(case.result.score, _PLACES),
            case.judged.threshold,
            None if case.cost is None else round(case.cost, 6),
            None if case.duration_ms is None else round(case.duration_ms),
            case.marks,
            case.why,
            [evaluators[each.name] for each in case.low],
            "" if case.change is None else case.change.word,
            None if case.change is None or case.change.delta is None else round(case.change.delta, _PLACES),
            [frequent[name] for name in overview.reasons_of(case) if name in frequent],
        ]
        for case in cases
    ]
    names = {"files": files, "tags": tags, "targets": targets, "evaluators": evaluators, "reasons": frequent}
    return {key: list(found) for key, found in names.items()} | {"rows": rows}


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Return names by number, sorted."""
    return {name: number for number, name in enumerate(sorted(set(names)))}


def _packed(value: list[JsonObject] | dict[str, Json]) -> str:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:  # other tools write NaN and Infinity, which browsers refuse
        text = json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None), separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 7, mtime=0)).decode()


# The details of an opened case.

LONGEST_TEXT: Final = 20_000
"""Characters; longer texts are cut, so that no single answer makes the file large."""


_WHERE: Final = "Run it in the folder where pytest was started."
_WHERE_GUESSED: Final = (
    "Run it in pytest's root folder. Add what else the run was given, such as --agentv-targets-file."
)


def _rerun(result: EvalResult, start: Start | None) -> str:
    """Return the command that runs a case again: of results alone, one that finds it wherever its target was chosen."""
    node_id = result.node_id
    if node_id is None:
        return ""
    if start is not None:
        return start.command(node_id)
    file, _, name = node_id.partition("::")
    is_named = file.endswith(".py") or name == result.eval_id
    case = [node_id] if is_named else [file, f"--agentv-eval-id={result.eval_id}"]
    return shlex.join(["pytest", *case, *([f"--agentv-target={result.target}"] if result.target else [])])


def detail_of(case: CaseRow, history: Sequence[JsonObject], gallery: Gallery, start: Start | None) -> JsonObject:
    """Return the plain data of a case, with long texts cut and the bytes of images replaced."""
    result = case.result
    text, images = gallery.take_out(_answer_text(result))
    keeps_answers = case.status != "pass" or case.is_flaky  # if all of them pass, the first one is enough
    answers = [_answer(status, answer, gallery) for status, answer in case.answers] if keeps_answers else []
    raw = (result if keeps_answers else result.replace(answers=None)).to_plain()
    detail: dict[str, Json] = {
        "question": gallery.take_out(question_of(result))[0],
        "expected": result.expected_outcome,
        "reference": result.reference_answer,
        "text": text,
        "images": images,
        "answers": answers,
        "shown": next((n for n, answer in enumerate(answers) if answer["status"] != "pass"), 0),
        "evaluators": list(map(_judgement, case.judgements)),
        "why": _why(case),
        "place": place_of(result) if result.eval_file else case.file,
        "files": list(_files(result)),
        "prompt": list(_prompt(result)),
        "messages": [_message(message, gallery) for message in result.output_messages or ()],
        "context": result.retrieved_context,
        "changes": result.file_changes,
        "time": parts_of(case),
        "lanes": lanes_of(case),
        "cost": cost_line(result),
        "attempts": _attempts(result),
        "rerun": _rerun(result, start),
        "rerun_in": (_WHERE if start else _WHERE_GUESSED) if result.node_id else "",
        "baseline": _baseline(case),
        "history": history,
        "raw": without_images(raw, lambda _: None),
    }
    bounded: JsonObject = _bounded({key: item for key, item in detail.items() if item not in (None, "", [])})
    return bounded


def _answer_text(result: EvalResult) -> str:
    return "" if result.status == "error" and not result.finish_reason else result.candidate_answer


def _answer(status: CaseStatus, result: EvalResult, gallery: Gallery) -> JsonObject:
    text, images = gallery.take_out(result.candidate_answer)
    return {
        "text": text,
        **({"images": images} if images else {}),
        "score": result.score,
        "status": status,
        "evaluators": list(map(_judgement, judgements_of(result))),
        "messages": [_message(message, gallery) for message in result.output_messages or ()],
    }


def _judgement(judgement: JudgementRow) -> JsonObject:
    result = judgement.result
    known = {
        "weight": result.weight,
        "hits": result.hits,
        "misses": result.misses,
        "reasoning": result.reasoning,
        "model": result.judge_model,
        "error": result.error,
        "duration_ms": result.duration_ms,
        "depth": judgement.depth,
    }
    named = {"name": result.name, "type": result.type, "score": judgement.score}
    return named | {key: item for key, item in known.items() if item not in (None, "", (), 0)}


def _why(case: CaseRow) -> str:
    result, judged = case.result, case.judged
    answers = counted(judged.judged, "answer")
    parts = []
    if case.status == "scored":
        parts.append(f"score {case.result.score:.2f}{f' of {answers}' if result.repeat else ''}, no threshold is known")
    elif result.repeat is not None and case.status != "error":
        parts.append(f"{judged.passes} of {answers} pass, {result.repeat.needed} needed")
    elif case.status != "error" and judged.threshold is not None:
        parts.append(f"score {case.result.score:.2f}, threshold {judged.threshold:g}")
    detail = result.error_detail
    if case.status == "error":
        where = f" ({detail.stage}, {detail.kind})" if detail else ""
        parts.append(f"{result.error or 'it could not be judged'}{where}")
    elif case.why:
        parts.append(case.why)
    return ". ".join(parts)


def _files(result: EvalResult) -> Iterator[str]:
    """Yield the guidelines of the request, the log of the call, and the folder that it left."""
    requests = (result.lm_provider_request, result.agent_provider_request)
    paths = [path for request in requests for path in _list(request, "guideline_paths") if isinstance(path, str)]
    yield from dict.fromkeys(paths)
    if result.log_file:
        yield result.log_file
    if kept := (result.workspace or {}).get("kept"):
        yield str(kept)


def _prompt(result: EvalResult) -> Iterator[JsonObject]:
    """Yield the messages before the question."""
    request = result.lm_provider_request
    messages = [message for message in _list(request, "chat_prompt") if isinstance(message, Mapping)]
    if messages:
        end = -1 if messages[-1].get("role") == "user" else None
        for message in messages[:end]:
            yield {"role": str(message.get("role") or ""), "content": content_text(message.get("content"))}
    elif isinstance(guidelines := (request or {}).get("guidelines"), str) and guidelines:
        yield {"role": "guidelines", "content": guidelines}


def _list(value: JsonObject | None, key: str) -> Sequence[Json]:
    found = (value or {}).get(key)
    return found if isinstance(found, list | tuple) else ()


def _message(message: Message, gallery: Gallery) -> JsonObject:
    plain = message.to_plain()
    content, images = gallery.take_out(plain.get("content"))
    calls: list[JsonObject] = []
    for call in plain.get("tool_calls") or ():
        output, outputs = gallery.take_out(call.get("output"))
        said = {"tool": call["tool"], "input": call.get("input"), "output": output, "ms": call.get("duration_ms")}
        calls.append(said | ({"images": outputs} if outputs else {}))
    shown = {"role": message.role, "content": content_text(content), "calls": calls}
    return shown | ({"images": images} if images else {})


def _attempts(result: EvalResult) -> str:
    parts = [f"{result.attempts} calls of the target"] if result.attempts > 1 else []
    if result.request_attempts:
        parts.append(counted(result.request_attempts, "request"))
    if result.waited_ms:
        parts.append(f"waited {format_duration(result.waited_ms)}")
    if result.last_error:
        parts.append(f"last error: {result.last_error}")
    if result.judge_retries:
        parts.append(f"judges asked again {counted(result.judge_retries, 'time')}")
    return ", ".join(parts)


_TITLES: Final = {
    "broken": "Broken",
    "worse": "Worse",
    "better": "Better",
    "same": "As before",
    "new": "New case",
    "changed": "Case changed",
    "error": "Not compared",
}


def _baseline(case: CaseRow) -> JsonObject | None:
    change = case.change
    if change is None:
        return None
    text = named_in(_answer_text(change.before), lambda _: None) if change.before is not None else ""
    return {"word": change.word, "title": _TITLES[change.word], "say": change.text, "text": text}


def _bounded(value: Json) -> Json:
    """Cut long texts at every depth."""
    if isinstance(value, str):
        if len(value) <= LONGEST_TEXT:
            return value
        return f"{value[:LONGEST_TEXT]}… ({len(value) - LONGEST_TEXT:,} more characters are in the results file)"
    if isinstance(value, Mapping):
        return {str(key): _bounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_bounded(item) for item in value]
    return value


def cost_line(result: EvalResult) -> str:
    """Return the model and the figures of a case. A figure that covers only some answers or calls says how many."""
    spent = spent_of(result)
    costs, judge = spent.answer, spent.judge or Costs()
    source = {"target": " as the target reported it", None: ""}.get(result.cost_source)
    price = f" by the price table {result.cost_source}" if source is None else source
    judges = ", ".join(filter(None, (_dollars(judge), _tokens(judge))))
    parts = (
        result.model,
        "" if (took := duration_of(result)) is None else format_duration(took),
        _dollars(costs, price),
        _tokens(costs),
        "answer from the cache" if result.cached else "",
        f"judges: {judges}" if judges else "",
    )
    return " · ".join(filter(None, parts))


def _dollars(costs: Costs, source: str = "") -> str:
    return f"{format_cost(costs.cost_usd)}{source}{known_part(costs.cost_known, costs)}" if costs.cost_known else ""


def _tokens(costs: Costs) -> str:
    if not costs.tokens_known:
        return ""
    return f"{costs.input:,.0f} tokens in, {costs.output:,.0f} out{known_part(costs.tokens_known, costs)}"


# Splits the time of a case into parts, and puts the answers of a repeated case on a common time axis.

PARTS: Final = ("target", "tools", "waiting", "judges", "other")
"""The target without its tools; its tools; waits between the requests of a call; evaluators; set-up and calls that
failed. The page draws them by their place in this tuple."""

_LEAST_OTHER: Final = 0.05
"""The least share of the whole time for which unexplained time becomes a part of its own."""

_Part = list[Json]
"""An index of `PARTS`, and milliseconds."""


def parts_of(case: CaseRow) -> list[_Part]:
    """Return the parts of a case's time. For a repeated case, return sums over its answers."""
    if not case.answers:
        # The judgements are of one answer. The time for the other answers counts as rest.
        return _parts_of_time(case.result, () if len(case.marks) > 1 else case.judgements)
    sums = [0.0] * len(PARTS)
    for _, answer in case.answers:
        for part, milliseconds in _parts_of_time(answer, judgements_of(answer)):
            sums[part] += milliseconds
    return [[part, round(total, 1)] for part, total in enumerate(sums) if total]


def lanes_of(case: CaseRow) -> list[JsonObject]:
    """Return a lane for each answer: its outcome, its parts, and its start in milliseconds after the first.

    Empty for a single answer, or if the results do not hold the answers. Starts are left out if one is unknown.
    """
    if len(case.answers) < 2:
        return []
    starts = [_start(answer) for _, answer in case.answers]
    known = [start for start in starts if start is not None]
    first = min(known) if len(known) == len(starts) else None
    lanes: list[JsonObject] = []
    for (status, answer), start in zip(case.answers, starts, strict=True):
        at = {} if start is None or first is None else {"at": round((start - first).total_seconds() * 1000, 1)}
        lanes.append({"status": status, "parts": _parts_of_time(answer, judgements_of(answer)), **at})
    return lanes


def _start(answer: EvalResult) -> datetime | None:
    """Return when an answer started. Its timestamp says when it ended."""
    if not is_amount(answer.duration_ms):
        return None
    try:
        end = datetime.fromisoformat(answer.timestamp)
        return end.replace(tzinfo=None) - timedelta(milliseconds=answer.duration_ms)
    except (ValueError, OverflowError):
        return None


def _parts_of_time(result: EvalResult, judgements: Sequence[JudgementRow]) -> list[_Part]:
    metrics = result.execution_metrics
    times = metrics.tool_durations if metrics and metrics.tool_durations else {}
    tools = sum(ms for calls in times.values() for ms in calls if is_amount(ms))
    measured = metrics.duration_ms if metrics and is_amount(metrics.duration_ms) else None
    target = max(0.0, (measured or 0.0) - tools)
    waited = result.waited_ms if is_amount(result.waited_ms) else 0.0
    judges = sum(ms for each in judgements if each.depth == 0 and is_amount(ms := each.result.duration_ms))
    whole = result.duration_ms if is_amount(result.duration_ms) else 0.0
    if whole:
        judges = min(judges, max(0.0, whole - target - tools - waited))  # several may judge at once
    other = max(0.0, whole - target - tools - waited - judges)
    if measured is None:
        target, other = other, 0.0  # the target's time was not measured: assume the rest
    parts = (target, tools, waited, judges, other if other > _LEAST_OTHER * whole else 0.0)
    return [[part, round(milliseconds, 1)] for part, milliseconds in enumerate(parts) if milliseconds > 0]
