"""`code_judge`: a script that is given the case as JSON and prints its judgement as JSON (agentv-formats 6.5).

A judge that prints something else than a result, cannot be started, takes too long or exits with an error has not
judged. That says nothing about the answer: the case becomes an error, and the message says how to mend the script.
"""

import json
import re
import shlex
import signal
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator

from pytest_agentv.cases.references import INTERPRETER, SCRIPT_SUFFIXES, find_cwd, script_command
from pytest_agentv.errors import EvaluatorError, KindError, locate
from pytest_agentv.evaluators.answer_data import json_object
from pytest_agentv.evaluators.base import Evaluator, or_sync, scope_of
from pytest_agentv.evaluators.context import Context, Services, build_payload
from pytest_agentv.evaluators.judge_reply import feedback, has_score, off_loop, reasoning_of
from pytest_agentv.evaluators.shared import KEYS
from pytest_agentv.evaluators.target_proxy import TargetProxy
from pytest_agentv.files.problems import near_file
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind import FILLED_TEXT, Part, Text, definition, expected, spelled
from pytest_agentv.model.results import Score, Verdict, verdict_of
from pytest_agentv.model.secrets import Masker, beginning, masked
from pytest_agentv.model.text import compact_json, format_number, pretty_json, trim
from pytest_agentv.runtime.processes import ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.user_code import is_ours, leaves

STDERR_LIMIT: Final = 2000
"""The most characters of standard error in a message. The end is kept, where the reason is."""

OUTPUT_LIMIT: Final = 10_000
"""Characters of unusable output that the record keeps."""

SCRIPT_LIMIT: Final = 200
"""Characters of a script that a message holds."""

SDK_FAILURE: Final = "Evaluation failed: "
"""The beginning of the reasoning that the SDK prints before it exits with 1."""

SHOWN_OUTPUT: Final = 200
"""Characters of wrong output that a message shows."""

DEFAULT_PROXY_CALLS: Final = 50
COMMAND_SCHEMA: Final = {"anyOf": [FILLED_TEXT, {"type": "array", "items": FILLED_TEXT, "minItems": 1}]}
PROXY_SCHEMA: Final = {"anyOf": [{"type": "boolean"}, definition("Proxy")]}


class Proxy(Part):
    """Lets a judge script call targets of the run."""

    max_calls: int = spelled(
        "max_calls", "maxCalls", default=DEFAULT_PROXY_CALLS, ge=0, description="how many calls it may make"
    )


def _proxy(value: Json) -> Json:
    if isinstance(value, bool):
        return {} if value else None
    if value is not None and not isinstance(value, dict | Proxy):
        raise expected("true or a mapping with max_calls")
    return value


def _words(value: Json) -> Json:
    """Return a shell command unchanged, and a list of words as a tuple."""
    if isinstance(value, str) and value.strip():
        return value
    words = value if isinstance(value, list | tuple) else ()
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise expected("a command: a text or a list of non-empty texts")
    return tuple(words)


def _folder(value: str | None, info: ValidationInfo) -> str | None:
    """Return the absolute folder of a script. Without a folder, or if it is missing, return the eval file's folder."""
    scope = scope_of(info)
    return value if scope is None else str(find_cwd(value, scope))


Folder: TypeAlias = Annotated[Text | None, AfterValidator(_folder)]


class CodeJudge(Evaluator):
    """A script that is given the case as JSON and prints its judgement."""

    model_config = ConfigDict(extra="allow")

    kind = "code_judge"
    short_key = "script"

    cwd: Folder = Field(
        default=None, validate_default=True, description="folder that it runs in; default: the eval file's"
    )
    script: Annotated[str | tuple[str, ...], BeforeValidator(_words), WithJsonSchema(COMMAND_SCHEMA)] = Field(
        description="a list of words, the path of a script, or a shell command"
    )
    path: Any = Field(default=None, description="passed to the script, like other keys", examples=["items[0].price"])
    target: Annotated[Proxy | None, BeforeValidator(_proxy), WithJsonSchema(PROXY_SCHEMA)] = Field(
        default=None, description="lets the script call targets: `true`, or a mapping with `max_calls`"
    )

    @field_validator("script")
    @classmethod
    def _find_script(cls, value: str | tuple[str, ...], info: ValidationInfo) -> str | tuple[str, ...]:
        scope = scope_of(info)
        if scope is None or isinstance(value, tuple):
            return value
        return script_command(value, Path(info.data.get("cwd") or scope.references.eval_dir), scope)

    @property
    def command(self) -> tuple[str, ...]:
        return ("sh", "-lc", self.script) if isinstance(self.script, str) else self.script

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        return ((self.cwd, self.command),)

    @property
    def calls_targets(self) -> bool:
        return self.target is not None

    def prepare(self, services: Services) -> Evaluator:
        if self.target is not None and services.targets is None:
            message = f"evaluator {self.label!r} has `target`, but there are no targets that its script could call"
            raise EvaluatorError(message, kind="config")
        return self

    def doubts(self, case: EvalCase) -> Iterator[str]:
        """Yield a warning that the script is missing. It is no error, because the target may write the script."""
        words = self.script if isinstance(self.script, tuple) else ()
        path = Path(self.cwd or Path(case.path).parent, *words[1:2])
        runs_it = words and INTERPRETER.fullmatch(Path(words[0]).name)  # other commands may name the file to judge
        if runs_it and path.suffix in SCRIPT_SUFFIXES and not path.exists():
            hint = near_file(path, (path.suffix,))
            yield f"there is no script {words[1]!r} in {locate(path.parent, None)}{f' ({hint})' if hint else ''}"

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Run the script, without a shell of ours.

        Raises `EvaluatorError` when it could not be started, took too long or failed.
        """
        request = {"script": list(self.command), "cwd": self.cwd}
        if self.target is None or context.services.targets is None:
            return (await self._judge(context, {}, Masker())).replace(request=request)
        targets, most, limit = context.services.targets, self.target.max_calls, context.timeout_seconds
        async with TargetProxy(
            targets, most, limit, answer=context.answer, reruns=context.reruns, twin=context.twin
        ) as proxy:
            score = await self._judge(context, proxy.environment, Masker([proxy.token]))
        calls = {"call_count": proxy.call_count, "max_calls": proxy.max_calls}
        return score.replace(request={**request, "target_proxy": calls})

    async def _judge(self, context: Context, variables: Mapping[str, str], masker: Masker) -> Score:
        shared: dict[str, Json] = {key: getattr(self, key) for key in KEYS if key in self.model_fields_set}
        config = {**(self.model_extra or {}), **shared}  # older scripts expect the shared keys
        cwd = self.cwd or str(Path(context.case.path).parent)
        stdout = await run_judge_script(
            self.command,
            build_payload(context, config or None),
            cwd=cwd,
            environment={**context.services.environment, **variables},
            timeout_seconds=context.timeout_seconds,
            masker=masker,
        )
        return await off_loop(len(stdout), parse_judgement, stdout)


class ScriptFailedError(EvaluatorError):
    """A script ran, and exited with another code than 0."""

    def __init__(self, message: str, said: str, output: str | None) -> None:
        """`said` is the part of the message that the script wrote."""
        super().__init__(message, "process", output)
        self.said = said


_NOTHING_TO_MASK: Final = Masker()


async def run_judge_script(
    script: Sequence[str],
    payload: Json,
    *,
    cwd: str,
    environment: Mapping[str, str],
    timeout_seconds: float | None,
    masker: Masker = _NOTHING_TO_MASK,
) -> str:
    """Give a script its payload and return what it printed, masked.

    Raises:
        EvaluatorError: It cannot be started (kind `config`), took too long (`timeout`), or was killed, printed
            without end or exited with another code than 0 (`process`).
    """
    try:
        result = await run_process(
            script,
            cwd=cwd,
            env=environment,
            stdin=pretty_json(payload).encode(errors="backslashreplace"),  # half a surrogate pair becomes a JSON escape
            timeout_seconds=timeout_seconds,
        )
    except ProcessStartError as error:
        message = f"Code evaluator could not be started (script: {show_script(script)}, cwd: {cwd}): {error}"
        raise EvaluatorError(message, kind="config") from error
    stdout, stderr = masker.mask(result.stdout), masker.mask(result.stderr)
    fault = _fault(result, timeout_seconds)
    if fault is None:
        return stdout
    said = _reason(stdout, stderr)
    message = f"Code evaluator {fault} (script: {show_script(script)}): {said}"
    kept = cut(stdout) if stdout.strip() else None
    if result.exit_code > 0 and not (result.timed_out or result.overflowed):
        raise ScriptFailedError(message, said, kept)
    raise EvaluatorError(message, kind="timeout" if result.timed_out else "process", output=kept)


def show_script(script: Sequence[str]) -> str:
    """Return the command for a message. A command that was written as a string stays unchanged."""
    text = masked(script[2] if len(script) == 3 and script[:2] == ("sh", "-lc") else shlex.join(script))
    return text if len(text) <= SCRIPT_LIMIT else f"{text[:SCRIPT_LIMIT]}…"


def cut(output: str) -> str:
    """Return the beginning of an output, with a note if it was cut."""
    if len(output) <= OUTPUT_LIMIT:
        return output
    output = masked(output)
    return f"{output[:OUTPUT_LIMIT]}\n[cut: the first {OUTPUT_LIMIT} of {len(output)} characters]"


def _fault(result: ProcessResult, timeout_seconds: float | None) -> str | None:
    if result.timed_out:
        return f"timed out after {format_number(timeout_seconds or 0)} s"
    if result.overflowed:
        return "was stopped because it printed too much"
    if result.exit_code < 0:
        return f"was killed by {_signal_name(-result.exit_code)}"
    if result.exit_code:
        return f"exited with code {result.exit_code}"
    return f"printed what is {result.stdout_fault}" if result.stdout_fault else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _reason(stdout: str, stderr: str) -> str:
    """Return the script's own error: the SDK's failure on standard output, or the end of its standard error."""
    found = json_object(stdout.strip()) or {}
    reasoning = reasoning_of(found) or ""
    said = [reasoning] if reasoning.startswith(SDK_FAILURE) else []
    if errors := masked(stderr.strip()):
        if len(errors) > STDERR_LIMIT:
            errors = f"[standard error, the last {STDERR_LIMIT} of {len(errors)} characters]\n{errors[-STDERR_LIMIT:]}"
        said.append(errors)
    return "\n".join(said) or "it wrote nothing on standard error"


_EXPECTED: Final = (
    'print exactly one JSON object such as {"score": 0.5, "hits": [], "misses": [], "reasoning": ""} '
    "on standard output, and everything else on standard error"
)


def parse_judgement(stdout: str) -> Score:
    """Turn the output of a judge into a score.

    Other output scores 0, with an `error` that says what was expected. A score outside 0..1 is left as it is:
    `build_result` clamps it and warns.
    """
    text = trim(stdout)
    try:
        found = _result(text)
        details = _details(found.get("details"))
    except ValueError as error:
        message = str(error)
        return Score(
            0.0, misses=(message,), reasoning=message, raw_output=cut(stdout), error=message, error_kind="process"
        )
    return Score(
        found["score"],
        hits=feedback(found.get("hits")),
        misses=feedback(found.get("misses")),
        reasoning=reasoning_of(found),
        details=details,
    )


def read_aggregate(stdout: str) -> Score:
    """Turn the output of an aggregator into a score, like that of a code judge. Keeps its verdict.

    The score decides whether the case passes. Source: agentv-formats 6.6 and its sample S6.
    """
    score = parse_judgement(stdout)
    verdict = (json_object(stdout.strip()) or {}).get("verdict")
    if verdict not in get_args(Verdict) or score.raw_output is not None:
        return score
    if verdict == "fail" and verdict_of(score.value) == "pass":
        warning = f"the aggregator prints the verdict 'fail' and the score {score.value:g}: the score counts"
        return score.replace(verdict=verdict, warnings=(warning,))
    return score.replace(verdict=verdict)


def _result(text: str) -> JsonObject:
    if not text:
        raise ValueError(f"Code evaluator printed nothing: {_EXPECTED}")
    found = json_object(text)
    if found is None:
        constant = _constant_in(text)
        if constant is not None:
            advice = "which is no JSON: print a number, or null in details"
            raise ValueError(f"Code evaluator printed {constant}, {advice}; it printed: {_head(text)}")
        raise ValueError(f"Code evaluator did not print one JSON object: {_EXPECTED}; it printed: {_head(text)}")
    if "score" not in found:
        raise ValueError(f"Code evaluator printed no `score`: {_EXPECTED}; it printed: {_head(text)}")
    if not has_score(found):
        given = _head(compact_json(found["score"]))
        raise ValueError(f"Code evaluator printed a `score` that is no number: {given}; print one from 0 to 1")
    return found


def _constant_in(text: str) -> str | None:
    """Return the first NaN or Infinity of an object that is JSON but for these. Many programs write them."""
    constants: list[str] = []
    try:
        value = json.loads(text, parse_constant=constants.append)
    except (ValueError, RecursionError):
        return None
    return constants[0] if constants and isinstance(value, dict) else None


def _details(value: Json) -> JsonObject | None:
    """Return the details unchanged. A text that holds a JSON object counts as that object."""
    details = json_object(value) if isinstance(value, str) else value
    if value is None or isinstance(details, dict):
        return details
    given = _head(compact_json(value))
    raise ValueError(
        f"Code evaluator printed `details` that are no JSON object: {given}; "
        'print a mapping such as {"reason": "…"}, or leave them out'
    )


def _head(text: str) -> str:
    return beginning(text, SHOWN_OUTPUT)


_BROKEN: Final = (NameError, SyntaxError, ImportError, FileNotFoundError)
"""Errors that code raises whatever the answer is."""
_RAISED: Final = re.compile(
    rf"^{SDK_FAILURE}|^Traceback \(most recent call last\)|^ +File \".+\", line \d|^ +at ", re.MULTILINE
)
"""What Python, JavaScript and the SDKs write of an exception. A script that fails otherwise may be unable to start."""
_SAID: Final = re.compile(
    r"\b(?:Name|UnboundLocal|Reference|Indentation|Tab|Import|ModuleNotFound|FileNotFound)Error\b"
    r"|\bSyntaxError\b(?!: .*(?:valid JSON|JSON input|in JSON|JSON Parse))"  # JavaScript says so of an answer
    r"|can't open file|cannot import name|Cannot find (?:module|package)|No module named|No such file|\bENOENT\b"
    r"|\bis not defined\b|command not found"
)
"""What scripts say of errors that do not depend on the answer."""


def is_of_mock(error: BaseException) -> bool:
    """Whether a check that works may fail with this error on the answer of a mock: it ran, and raised on the answer."""
    if isinstance(error, ScriptFailedError):
        return bool(_RAISED.search(error.said)) and not _SAID.search(error.said)
    if isinstance(error, KindError):
        if error.kind != "crash":
            return False
        if error.__cause__ is None:
            return not any(is_ours(frame.filename) for frame in traceback.extract_tb(error.__traceback__)[-1:])
        error = error.__cause__
    return all(isinstance(leaf, Exception) and not isinstance(leaf, _BROKEN) for leaf in leaves(error))
