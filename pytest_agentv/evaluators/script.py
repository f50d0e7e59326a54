"""`code_judge`: a script that is given the case as JSON and prints its judgement as JSON (agentv-formats 6.5)."""

import asyncio
import hmac
import json
import secrets
import shlex
import signal
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from pytest_agentv.cases.evaluators import INTERPRETER, SCRIPT_SUFFIXES, script_command
from pytest_agentv.cases.references import Scope
from pytest_agentv.errors import ErrorKind, EvaluatorError, ProviderError, locate
from pytest_agentv.evaluators.answer_data import has_score, json_object, off_loop, reasoning_of, with_findings
from pytest_agentv.evaluators.base import Evaluator, scope_of
from pytest_agentv.evaluators.context import (
    Context,
    ProxiedQuestion,
    ProxiedTargets,
    Services,
    build_payload,
    camel_case_message,
    current_meter,
)
from pytest_agentv.evaluators.run import KEYS, NO_WORKSPACE, SDK_FAILURE, ScriptFailedError
from pytest_agentv.files.problems import near_file
from pytest_agentv.model.base import Json, JsonObject, compact_json, format_number, mapping, pretty_json, trim
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind import FILLED_TEXT, Amount, Part, Text, definition, expected, spelled
from pytest_agentv.model.messages import Message
from pytest_agentv.model.results import Score, Verdict, verdict_of
from pytest_agentv.model.secrets import Masker, beginning, masked
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.runtime.processes import ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.workspaces import in_eval_dir
from pytest_agentv.sdk import TOKEN_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from aiohttp import web

# The target proxy: lets a judge script call the run's targets over HTTP on loopback (agentv-formats 7.1). The key names
# of its wire are AgentV's, so that judges written for AgentV's own SDK run unchanged.

BODY_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a request's body."""


class _RefusedError(Exception):
    """A request that is refused, with its HTTP status. The sender gets the text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TargetProxy:
    """The proxy of one run of a judge script, open as long as its context is."""

    def __init__(self, targets: ProxiedTargets, max_calls: int, context: Context) -> None:
        self.max_calls = max_calls
        self.call_count = 0
        self.token = secrets.token_hex(32)
        self.url = ""
        self._targets = targets
        self._context = context
        self._meter = current_meter()
        self._open: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        web = await asyncio.to_thread(import_module, "aiohttp.web")  # its import would hold up other cases
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
        except OSError as error:
            await runner.cleanup()
            message = f"the target proxy could not be started on 127.0.0.1: {error.strerror or error}"
            raise EvaluatorError(message, "network") from error
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel the open requests, count what they cost, and close all connections and the port."""
        for request in self._open:
            request.cancel()
        if self._open:
            await asyncio.wait(self._open)
        await self._runner.cleanup()

    async def _serve(self, request: "web.Request") -> "web.Response":
        """Answer a request. A failure becomes a response; only a cancellation is raised."""
        from aiohttp import web  # noqa: PLC0415 - imported when the proxy was opened

        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        try:
            status, text = 200, json.dumps(await self._reply(request, await request.read()), allow_nan=False)
        except _RefusedError as refusal:
            status, text = refusal.status, json.dumps({"error": str(refusal)})
        except web.HTTPException:  # a body beyond the limit
            raise
        except Exception as error:  # noqa: BLE001 - providers of plugins may raise anything; the script gets the error
            status, text = 500, json.dumps({"error": str(error) or type(error).__name__})
        response = web.Response(status=status, text=text, content_type="application/json")
        response.force_close()
        return response

    async def _reply(self, request: "web.Request", body: bytes) -> Json:
        authorization = request.headers.get("authorization", "")
        if not hmac.compare_digest(authorization.encode(errors="replace"), f"Bearer {self.token}".encode()):
            raise _RefusedError(401, "Unauthorized")
        match request.method, request.raw_path:
            case "GET", "/info":  # source: scenario "Code judge queries proxy info"
                return {
                    "targetName": self._targets.default_name,
                    "maxCalls": self.max_calls,
                    "callCount": self.call_count,
                    "availableTargets": list(self._targets.names),
                }
            case "POST", "/invoke":
                self._check_limit()
                return await self._ask(_parse(body))
            case "POST", "/invokeBatch":
                return await self._ask_in_turn(mapping(_parse(body)).get("requests"))
        raise _RefusedError(404, "Not found")

    async def _ask_in_turn(self, batch: Json) -> Json:
        """Ask one after another. A failure of one request is the answer to that request only."""
        if not isinstance(batch, list):
            raise _RefusedError(400, "Missing required field: requests (array)")
        if self.call_count + len(batch) > self.max_calls:
            counts = f"current: {self.call_count}, batch: {len(batch)}, limit: {self.max_calls}"
            raise _RefusedError(429, f"Batch would exceed max calls ({counts})")
        responses: list[Json] = []
        for request in batch:
            try:
                responses.append(await self._ask(request))
            except Exception as error:  # noqa: BLE001 - as in `_serve`
                responses.append({"outputMessages": [], "rawText": f"Error: {str(error) or type(error).__name__}"})
        return {"responses": responses}

    async def _ask(self, request: Json) -> Json:
        """Call a target. Failed calls count; refused requests do not."""
        self._check_limit()  # in a batch too: another request may have used the last calls meanwhile
        fields = mapping(request)
        question = fields.get("question")
        if not isinstance(question, str) or not question:
            raise _RefusedError(400, "Missing required field: question")
        # Source: scenarios "Code judge overrides target for specific call", "Code judge specifies unknown target".
        name = fields.get("target") or self._targets.default_name
        if name not in self._targets.names:
            raise _RefusedError(400, f"Unknown target '{name}'. Available: {', '.join(self._targets.names)}")
        target = self._targets.resolve(str(name))
        system_prompt, eval_id, attempt = (fields.get(key) for key in ("systemPrompt", "evalCaseId", "attempt"))
        asked = ProxiedQuestion(
            question,
            system_prompt=system_prompt if isinstance(system_prompt, str) else None,
            eval_id=eval_id if isinstance(eval_id, str) and eval_id else "proxy",
            attempt=attempt if isinstance(attempt, int) and attempt >= 0 else 1,
            context=self._context,
        )
        self.call_count += 1
        response: ProviderResponse | None = None
        try:
            response = await target(asked)
        finally:
            self._meter.add_reply(response)
        if response.error is not None:
            raise ProviderError(response.error, response.error_kind)
        messages = response.output_messages or ()
        answer = {"outputMessages": [camel_case_message(message) for message in messages]}
        text = raw_text(messages)
        return answer if text is None else {**answer, "rawText": text}

    def _check_limit(self) -> None:
        if self.call_count >= self.max_calls:
            raise _RefusedError(429, f"Max calls exceeded (limit: {self.max_calls})")


def raw_text(messages: tuple[Message, ...]) -> str | None:
    """Return the text of the last assistant message that has one: its content, or the first `text` among its parts."""
    for message in reversed(messages):
        parts = message.content if isinstance(message.content, list) else [{"text": message.content}]
        texts = (part.get("text") for part in parts if isinstance(part, dict))
        text = next((each for each in texts if isinstance(each, str)), None)
        if message.role == "assistant" and text is not None:
            return text
    return None


def _parse(body: bytes) -> Json:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _RefusedError(400, f"Invalid JSON: {error}") from None


# `code_judge`. A judge that prints something else than a result, cannot be started, takes too long or exits with an
# error has not judged: the case becomes an error, and the message says how to mend the script.

_STDERR_LIMIT: Final = 2000
"""The most characters of standard error in a message. The end is kept, where the reason is."""
_OUTPUT_LIMIT: Final = 10_000
"""Characters of unusable output that the record keeps."""
_SHOWN: Final = 200
"""Characters of a script, or of wrong output, that a message shows."""


class Proxy(Part):
    """Lets a judge script call targets of the run."""

    max_calls: int = spelled("max_calls", "maxCalls", default=50, ge=0, description="how many calls it may make")


def _proxy(value: Json) -> Json:
    if isinstance(value, bool):
        return {} if value else None
    if value is not None and not isinstance(value, dict | Proxy):
        raise expected("true or a mapping with max_calls")
    return value


def _words_of_command(value: Json) -> Json:
    if isinstance(value, str) and value.strip():
        return value
    words = value if isinstance(value, list | tuple) else ()
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise expected("a command: a text or a list of non-empty texts")
    return tuple(words)


ShellCommand: TypeAlias = Annotated[
    str | tuple[str, ...],
    BeforeValidator(_words_of_command),
    WithJsonSchema({"anyOf": [FILLED_TEXT, {"type": "array", "items": FILLED_TEXT, "minItems": 1}]}),
]
"""A shell command, or the words of a command."""


def _folder(value: str | None, info: ValidationInfo) -> str | None:
    """Return the absolute folder of a script: that of the eval file if there is no other."""
    scope = scope_of(info)
    if scope is None:
        return value
    folder = scope.references.find_folder(value, scope.place.at("cwd")) if value else None
    return str(folder or scope.references.eval_dir)


Folder: TypeAlias = Annotated[
    Text | None,
    AfterValidator(_folder),
    Field(validate_default=True, description="folder that it runs in; default: the eval file's"),
]


class CodeJudge(Evaluator):
    """A script that is given the case as JSON and prints its judgement."""

    model_config = ConfigDict(extra="allow")

    kind = "code_judge"
    short_key = "script"

    cwd: Folder = None
    script: ShellCommand = Field(description="a list of words, the path of a script, or a shell command")
    path: Any = Field(default=None, description="passed to the script, like other keys", examples=["items[0].price"])
    file: Any = Field(default=None, description="passed to the script, like other keys", examples=["report.json"])
    target: Annotated[
        Proxy | None,
        BeforeValidator(_proxy),
        WithJsonSchema({"anyOf": [{"type": "boolean"}, definition("Proxy")]}),
    ] = Field(default=None, description="lets the script call targets: `true`, or a mapping with `max_calls`")

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

    async def evaluate(self, context: Context) -> Score:
        """Run the script, without a shell of ours."""
        request = {"script": list(self.command), "cwd": self.cwd}
        if self.target is None or context.services.targets is None:
            return (await self._judge(context)).replace(request=request)
        async with TargetProxy(context.services.targets, self.target.max_calls, context) as proxy:
            score = await self._judge(context, proxy)
        calls = {"call_count": proxy.call_count, "max_calls": proxy.max_calls}
        return score.replace(request={**request, "target_proxy": calls})

    async def _judge(self, context: Context, proxy: TargetProxy | None = None) -> Score:
        shared: dict[str, Json] = {key: getattr(self, key) for key in KEYS if key in self.model_fields_set}
        config = {**(self.model_extra or {}), **shared}  # older scripts expect the shared keys
        stdout = await run_judge_script(
            self.command, build_payload(context, config or None), cwd=self.cwd, context=context, proxy=proxy
        )
        return await off_loop(len(stdout), parse_judgement, stdout)


async def run_judge_script(
    script: Sequence[str], payload: Json, *, cwd: str | None, context: Context, proxy: TargetProxy | None = None
) -> str:
    """Give a script its payload and return what it printed, masked.

    Raises `EvaluatorError` of the kind `config` (it cannot be started), `timeout`, or `process`.
    """
    cwd = cwd or str(Path(context.case.path).parent)
    masker, variables = Masker(), {}
    if proxy is not None:
        masker, variables = Masker([proxy.token]), {URL_VARIABLE: proxy.url, TOKEN_VARIABLE: proxy.token}
    command = script[2] if len(script) == 3 and script[:2] == ("sh", "-lc") else shlex.join(script)
    shown = beginning(command, _SHOWN)  # as it was written
    try:
        result = await run_process(
            script,
            cwd=cwd,
            env={**context.services.environment, **variables},
            stdin=pretty_json(payload).encode(errors="backslashreplace"),  # half a surrogate pair becomes a JSON escape
            timeout_seconds=context.timeout_seconds,
        )
    except ProcessStartError as error:
        message = f"Code evaluator could not be started (script: {shown}, cwd: {cwd}): {error}"
        raise EvaluatorError(message, kind="config") from error
    stdout, stderr = masker.mask(result.stdout), masker.mask(result.stderr)
    fault = _fault(result, context.timeout_seconds)
    if fault is None:
        return stdout
    said = _reason(stdout, stderr)
    message = f"Code evaluator {fault} (script: {shown}): {said}"
    kept = cut(stdout) if stdout.strip() else None
    if result.exit_code > 0 and not (result.timed_out or result.overflowed):
        raise ScriptFailedError(message, said, kept)
    raise EvaluatorError(message, kind="timeout" if result.timed_out else "process", output=kept)


def cut(output: str) -> str:
    """Return the beginning of an output, with a note if it was cut."""
    if len(output) <= _OUTPUT_LIMIT:
        return output
    output = masked(output)
    return f"{output[:_OUTPUT_LIMIT]}\n[cut: the first {_OUTPUT_LIMIT} of {len(output)} characters]"


def _fault(result: ProcessResult, timeout_seconds: float | None) -> str | None:
    if result.timed_out:
        return f"timed out after {format_number(timeout_seconds or 0)} s"
    if result.overflowed:
        return "was stopped because it printed too much"
    if result.exit_code < 0:
        return f"was killed by {signal.Signals(-result.exit_code).name}"
    if result.exit_code:
        return f"exited with code {result.exit_code}"
    return f"printed what is {result.stdout_fault}" if result.stdout_fault else None


def _reason(stdout: str, stderr: str) -> str:
    """Return the script's own error: the SDK's failure on standard output, or the end of its standard error."""
    reasoning = reasoning_of(json_object(stdout.strip()) or {}) or ""
    own = reasoning if reasoning.startswith(SDK_FAILURE) else ""
    errors = masked(stderr.strip())
    if len(errors) > _STDERR_LIMIT:
        told = f"[standard error, the last {_STDERR_LIMIT} of {len(errors)} characters]"
        errors = f"{told}\n{errors[-_STDERR_LIMIT:]}"
    return "\n".join(filter(None, (own, errors))) or "it wrote nothing on standard error"


_EXPECTED: Final = (
    'print exactly one JSON object such as {"score": 0.5, "hits": [], "misses": [], "reasoning": ""} '
    "on standard output, and everything else on standard error"
)


def parse_judgement(stdout: str) -> Score:
    """Turn the output of a judge into a score. Other output scores 0, with an `error` that says what was expected."""
    found = json_object(trim(stdout))
    if fault := _fault_of_reply(trim(stdout), found):
        return Score(0.0, misses=(fault,), reasoning=fault, raw_output=cut(stdout), error=fault, error_kind="process")
    assert found is not None
    return with_findings(found["score"], found).replace(details=found.get("details"))


def _fault_of_reply(text: str, found: JsonObject | None) -> str | None:
    """Return why the output of a judge is no result, and what to print."""
    if not text:
        return f"Code evaluator printed nothing: {_EXPECTED}"
    if found is None or "score" not in found:
        fault = "did not print one JSON object" if found is None else "printed no `score`"
        return f"Code evaluator {fault}: {_EXPECTED}; it printed: {beginning(text, _SHOWN)}"
    if not has_score(found):
        given = beginning(compact_json(found["score"]), _SHOWN)
        return f"Code evaluator printed a `score` that is no number: {given}; print one from 0 to 1"
    details = found.get("details")
    if details is not None and not isinstance(details, dict):
        given = beginning(compact_json(details), _SHOWN)
        advice = 'print a mapping such as {"reason": "…"}, or leave them out'
        return f"Code evaluator printed `details` that are no JSON object: {given}; {advice}"
    return None


def read_aggregate(stdout: str) -> Score:
    """Turn the output of an aggregator into a score that keeps its verdict. Source: agentv-formats 6.6, S6."""
    score = parse_judgement(stdout)
    verdict = (json_object(stdout.strip()) or {}).get("verdict")
    if verdict not in get_args(Verdict) or score.raw_output is not None:
        return score
    is_odd = verdict == "fail" and verdict_of(score.value) == "pass"
    warning = f"the aggregator prints the verdict 'fail' and the score {score.value:g}: the score counts"
    return score.replace(verdict=verdict, warnings=(warning,) if is_odd else ())


# `command`: a shell command that passes in the workspace.

_CANNOT_RUN: Final = {126: "cannot be run", 127: "was not found"}


class Command(Evaluator):
    """A shell command that ends with exit code 0 in the folder that the target worked in."""

    kind = "command"
    short_key = "command"
    is_graded = False
    reads_answer = False

    command: ShellCommand = Field(
        description="a shell command, or a list of words; without variables like `*_KEY`, `*_TOKEN`, `*_SECRET`",
        examples=["python -m pytest -q --noconftest -c /dev/null test_shop.py"],
    )
    timeout_seconds: Amount | None = Field(
        default=None, description="limit; default: that of the run, `--agentv-timeout`", examples=[60]
    )

    _eval_dir: str | None = PrivateAttr(default=None)

    def model_post_init(self, context: object) -> None:
        self._eval_dir = str(context.references.eval_dir) if isinstance(context, Scope) else None

    def summary(self) -> str:
        return self.command if isinstance(self.command, str) else " ".join(self.command)

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        words = (self.command,) if isinstance(self.command, str) else self.command
        return ((self._eval_dir, tuple(map(in_eval_dir, words))),)

    async def evaluate(self, context: Context) -> Score:
        if context.workspace is None:
            raise EvaluatorError(NO_WORKSPACE, "config")
        limit = context.timeout_seconds if self.timeout_seconds is None else self.timeout_seconds
        try:
            result = await context.workspace.run(self.command, limit)
        except ProcessStartError as error:
            raise EvaluatorError(str(error), "config") from error
        said = (result.stdout.strip() + "\n" + result.stderr.strip()).strip()[-2000:]
        code, fault = result.exit_code, None
        if result.timed_out or result.overflowed:
            fault = _fault(result, limit)
        elif code in _CANNOT_RUN:
            fault = _CANNOT_RUN[code]
        elif code == 5 and ("pytest" in self.summary() or "no tests ran" in said.lower()):  # also of unittest
            fault = "ran no tests"
        if fault is not None:
            kind: ErrorKind = "timeout" if result.timed_out else "process"
            raise EvaluatorError(": ".join(filter(None, (f"`{self.summary()}` {fault}", said))), kind)
        if code == 0:
            return Score(1.0, hits=("exit code 0",))
        ended = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
        miss = ": ".join(filter(None, (ended, said.rpartition("\n")[2])))
        return Score(0.0, misses=(miss,), reasoning=said or None)
