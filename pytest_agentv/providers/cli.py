"""The `cli` provider: a command line, rendered and run once per case, or once for a whole batch."""

import asyncio
import json
import logging
import re
import shlex
import signal
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path, PurePath
from typing import Annotated, Final, Literal, Self, TypeAlias
from uuid import uuid4

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pytest_agentv.cases.prompts import Prompt, PromptMode
from pytest_agentv.errors import ProviderError
from pytest_agentv.files.problems import describe_value, did_you_mean
from pytest_agentv.model.base import NoJsonConstantError, format_number, strict_json
from pytest_agentv.model.kind import expected, filled, spelled
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.api.base import HttpRequest, is_success, shown_url
from pytest_agentv.providers.api.client import HttpClient, RequestError, read_error_text
from pytest_agentv.providers.base import (
    ProviderRequest,
    ProviderResponse,
    TargetAdapter,
    TargetEnvironment,
    shortest,
    total_seconds,
    with_trace,
)
from pytest_agentv.providers.kind import Provider, Settings, Sources, WireError, answer_message, parse_response
from pytest_agentv.runtime.files import read_regular_file, utf8_fault
from pytest_agentv.runtime.processes import OUTPUT_LIMIT, ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.reaper import temporary_folder
from pytest_agentv.runtime.user_code import run_in_thread
from pytest_agentv.runtime.workspaces import EVAL_DIR, in_eval_dir
from pytest_agentv.targets.definitions import REFERENCE
from pytest_agentv.targets.fields import (
    FinalFault,
    Flag,
    OptionalText,
    Seconds,
    ShieldedText,
    Url,
    optional_text,
    path_in,
    reveal,
)

# Command templates: their placeholders, and values that the shell takes literally.

LONGEST_ARGUMENT: Final = 128 * 1024 - 1
"""In bytes. Linux accepts no longer argument of a program or variable. The final NUL is not counted."""

PROMPT_VARIABLE: Final = "AGENTV_PROMPT"
"""The variable with the prompt, unless the prompt is too long for a variable."""

PLACEHOLDERS: Final = (
    *("PROMPT", "PROMPT_FILE", "PROMPT_JSON", "GUIDELINES", "EVAL_ID", "ATTEMPT"),
    *("FILES", "ATTACHMENTS", "OUTPUT_FILE", "SESSION_ID", "WORKSPACE"),
)

KNOWN_PLACEHOLDER: Final = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_FILE_PLACEHOLDER: Final = re.compile(r"\{(path|basename)\}")


def call_values(
    request: ProviderRequest, files_format: str, output_file: Path, write: Callable[[str], str] = shlex.quote
) -> dict[str, str]:
    """Return the values of the placeholders in one call as words of a command, or as `write` writes them."""
    prompt = "\n\n".join(filter(None, (request.system_prompt, request.prompt.question)))
    texts = {
        "PROMPT": prompt,
        "PROMPT_JSON": json.dumps(prompt, ensure_ascii=False),
        "GUIDELINES": request.prompt.guidelines,
        "EVAL_ID": request.eval_id,
        "ATTEMPT": str(request.attempt),
        "SESSION_ID": request.session or "",
        "WORKSPACE": request.workspace or "",
    }
    words = []
    for path in dict.fromkeys(request.file_paths):
        values = {"path": write(path), "basename": write(PurePath(path).name)}
        words.append(render_command(files_format, values, _FILE_PLACEHOLDER))
    files = " ".join(words)
    return {name: write(clean(text)) for name, text in texts.items()} | {
        "OUTPUT_FILE": write(str(output_file)),
        "PROMPT_FILE": write(str(output_file.with_name("prompt.txt"))),
        "FILES": files,
        "ATTACHMENTS": files,
    }


def render_command(template: str, values: Mapping[str, str], placeholder: re.Pattern[str] = KNOWN_PLACEHOLDER) -> str:
    """Fill a template in one pass, so that placeholders inside of values stay."""
    return placeholder.sub(lambda match: values[match[1]], template)


def with_prompt(environment: Mapping[str, str], value: str) -> dict[str, str]:
    """Return the variables of a command, with `AGENTV_PROMPT` if there is a prompt that fits."""
    variables = {name: value for name, value in environment.items() if name != PROMPT_VARIABLE}
    if value and len(f"{PROMPT_VARIABLE}={value}".encode()) <= LONGEST_ARGUMENT:
        variables[PROMPT_VARIABLE] = value
    return variables


def clean(text: str) -> str:
    """Return a text that fits into an argument: without NUL, and with `?` for lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def shell_argv(command: str, folder: Path) -> list[str]:
    """Return the program that runs a command. A command that is too long for an argument is put into a script file."""
    if len(command.encode("utf-8", "surrogateescape")) <= LONGEST_ARGUMENT:
        return ["/bin/sh", "-c", command]
    script = folder / "command.sh"
    script.write_text(command, encoding="utf-8", errors="surrogateescape", newline="")
    return ["/bin/sh", str(script)]


# The placeholders are checked when the targets file is read.

_PROMPTS: Final = frozenset({"PROMPT", "PROMPT_FILE", "PROMPT_JSON"})
_GUIDELINES: Final = frozenset({"GUIDELINES", "FILES", "ATTACHMENTS"})
_IN_CAPITALS: Final = re.compile(r"(\$?)\{([A-Z_]+)\}")
_WORD: Final = re.compile(r"(?<![${])\{(\w+)\}(?!\})|\{\{ *(\w+) *\}\}")
"""A word in braces that is no variable of the shell."""


def _input(value: object) -> str:
    text = filled(value)
    plain = REFERENCE.sub("", text)
    for dollar, name in _IN_CAPITALS.findall(plain):
        if dollar and name in PLACEHOLDERS:
            raise FinalFault(f"write {{{name}}} without the $: it is a placeholder, not a variable of the shell")
        if not dollar and name not in PLACEHOLDERS:
            raise _unknown(name, PLACEHOLDERS)
    words = list(_WORD.finditer(plain))
    names = {word[1] for word in words}
    if PROMPT_VARIABLE in text or names & _PROMPTS:
        names.add("PROMPT")
    for match in words:  # if the command gets the value otherwise, the braces may be a program's
        name = match[1] or match[2]
        if (meant := name.upper()) in PLACEHOLDERS and meant not in names:
            raise FinalFault(
                f"{match[0]} is no placeholder, and would be passed on as it is; write {{{meant}}}, or "
                f"{{ {name} }} for braces of the command"
            )
    return text


def _unknown(name: str, known: Sequence[str]) -> FinalFault:
    valid = [f"{{{placeholder}}}" for placeholder in known]
    near = did_you_mean(f"{{{name}}}", valid)
    hint = f"{near} " if near else ""
    return FinalFault(f"unknown placeholder {{{name}}}; {hint}valid are {', '.join(valid)}")


def _files_format(value: object) -> str:
    text = optional_text(value)
    for match in _WORD.finditer(REFERENCE.sub("", text)):
        if not _FILE_PLACEHOLDER.fullmatch(match[0]):
            raise _unknown(match[1] or match[2], ("path", "basename"))
    return _refuse_quotes(text, f"{text} {text}", _FILE_PLACEHOLDER)  # an open quote includes the next file


def _refuse_quotes(text: str, used: str, placeholder: re.Pattern[str]) -> str:
    """Return a text; `used` is what the shell gets."""
    if name := find_unsafe(REFERENCE.sub("x", used).replace("\0", ""), placeholder):
        other = "" if name != "{PROMPT}" else "; or use {PROMPT_JSON}, {PROMPT_FILE}, the key stdin or $AGENTV_PROMPT"
        raise FinalFault(
            f"{name} stands within quotes, backticks, a comment or a here-document, where its text could run as a "
            f"command; write it as a word of its own, without quotes: it is quoted for the shell{other}"
        )
    return text


InputTemplate: TypeAlias = Annotated[str, BeforeValidator(_input)]
CommandTemplate: TypeAlias = Annotated[
    InputTemplate, AfterValidator(lambda text: _refuse_quotes(text, text, KNOWN_PLACEHOLDER))
]
FilesFormat: TypeAlias = Annotated[str, BeforeValidator(_files_format)]

_INNER: Final = r"""\$\((?:[^()"'`\\#<$]|\$(?![\0(]))*\)"""
"""A command substitution without quotes: a command of its own, also inside of double quotes."""
_QUOTED: Final = re.compile(
    rf"""\\. | \$\0                                     # the character behind a backslash, or a dollar sign
    | '[^']*'
    | "(?:\\. | {_INNER} | \$\{{[^{{}}()'"`\\]*\}} | \$(?![({{]) | [^"`\\$])*"
    | (?<![^\s;&|()])\#[^\n]*                         # a comment
    | \$\(\([^()'"`]*\)\) | \$\{{[^{{}}()'"`\\]*\}}
    | (?: ["'`] | \$' | \$\{{ | \$\(\( | (?<!<)<<(?!<) ).*  # what ends nobody knows where: the rest
    """,
    re.DOTALL | re.VERBOSE,
)
"""The parts of a command where the shell expects no word. A placeholder is written there as NUL."""


def find_unsafe(template: str, placeholder: re.Pattern[str]) -> str | None:
    """Return the first placeholder within quotes, a comment or a here-document: its own quotes would end them."""
    names = [match[0] for match in placeholder.finditer(template)]
    marked = placeholder.sub("\0", template)
    for part in _QUOTED.finditer(marked):
        text = re.sub(_INNER, lambda inner: " " * len(inner[0]), part[0]) if part[0].endswith('"') else part[0]
        if "\0" in text:
            return names[marked.count("\0", 0, part.start() + text.index("\0"))]
    return None


# Reads the output of a command as an answer (agentv-formats 5.8).

_LONGEST_LINE: Final = 300

_LONGEST_REPORT: Final = 2000
"""The most characters of a command's output in an error. The end is kept, where programs report errors."""

_LOOKS_MEANT: Final = re.compile(r'\s*\{.*?"(?:text|output_messages|outputMessages|output)"\s*:', re.DOTALL)


class OutputError(ProviderError):
    """A command ended with exit code 0, but its output is no answer. Another call is not likely to give one."""


def parse_output(content: str) -> ProviderResponse:
    """Read the answer to one request. Output of any other shape is the text of the answer."""
    try:
        data = strict_json(content)
        response = parse_response(data)
    except ValueError as error:
        meant = _LOOKS_MEANT.match(content) and isinstance(error, WireError | NoJsonConstantError)
        return _plain_text(content, *([f"the answer is taken as a plain text: {error}"] if meant else []))
    if response.output_messages is not None:
        return response
    if "text" not in data:
        return _plain_text(content)
    return response.replace(error="the target gave no answer: its 'text' is null", error_kind="no_answer")


def _plain_text(content: str, *warnings: str) -> ProviderResponse:
    return ProviderResponse(output_messages=(answer_message(content),), is_text_only=True, warnings=warnings)


def parse_batch_output(content: str, eval_ids: Sequence[str]) -> list[ProviderResponse]:
    """Read the JSONL answers to many requests. Skips other ids. With an unusable line, all have an `error`."""
    answers: dict[str, ProviderResponse] = {}
    fault = None
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            try:
                eval_id, response = _parse_record(line)
                if eval_id in answers:
                    raise WireError(f"the id {eval_id!r} was there before")
                answers[eval_id] = response
            except WireError as error:
                fault = fault or f"CLI batch output, line {number}: {error}"
    if fault is not None:
        found = [answers.get(eval_id, ProviderResponse()) for eval_id in eval_ids]
        return [response.replace(error=fault, error_kind="process") for response in found]
    return [answers.get(eval_id) or _missing(eval_id) for eval_id in eval_ids]


def _missing(eval_id: str) -> ProviderResponse:
    error = f"Batch output missing id '{eval_id}'"
    return ProviderResponse((answer_message(f"Error: {error}"),), error=error, error_kind="no_answer")


def _parse_record(line: str) -> tuple[str, ProviderResponse]:
    try:
        data = strict_json(line)
    except ValueError as error:
        raise WireError(f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise WireError("expected a JSON object")
    eval_id = data.get("id")
    if not isinstance(eval_id, str) or not eval_id:
        raise WireError("expected a string 'id', the eval id it answers")
    response = parse_response(data)
    if response.output_messages is not None:
        return eval_id, response
    said = f": {read_error_text(json.dumps({'error': data['error']}))}" if data.get("error") else ""
    reason = f"Batch output has neither 'text' nor 'output_messages' for id '{eval_id}'{said}"
    return eval_id, response.replace(error=reason, error_kind="no_answer")


def parse_one_of_batch(content: str, eval_id: str, batch_ids: Collection[str]) -> ProviderResponse:
    """Read the answer to one request, from a command that may have answered its batch again."""
    if {eval_id, *batch_ids}.isdisjoint(re.findall(r'"id"\s*:\s*"([^"]*)"', content)):
        return parse_output(content)
    [answer] = parse_batch_output(content, [eval_id])
    return answer


def raise_for_failure(result: ProcessResult, limit: float | None) -> None:
    """Raise if the command did not end well. Source: "Timeout and retries"."""
    if not (result.timed_out or result.overflowed or result.exit_code):
        return
    said = report_output(result)
    if result.timed_out:
        text = f"CLI provider timed out after {format_number(limit or 0)}s"
        raise ProviderError(f"{text}: {said}" if said else text, "timeout")
    if result.overflowed:
        size = OUTPUT_LIMIT // 2**20
        raise ProviderError(f"CLI wrote more than {size} MiB and was stopped (exit code unknown)", "process")
    text = f"CLI exited with code {result.exit_code}"
    if said or result.exit_code < 0:
        cause, newline, rest = (said or "CLI failed").partition("\n")
        text = f"{cause} ({describe_exit(result.exit_code)}){newline}{rest}"
    raise ProviderError(text, "process")


def read_output(result: ProcessResult, path: Path | None, *, may_be_empty: bool = False) -> str:
    """Return what a successful command printed, or wrote to its output file. Raises `OutputError`."""
    what, text, fault = "output", result.stdout.rstrip("\n"), result.stdout_fault
    said = report_output(result)
    said = f"; it said: {said}" if said else ""
    if path is not None:
        try:
            content = read_regular_file(path)
        except OSError as error:
            reason = error.strerror
            if isinstance(error, FileNotFoundError):
                reason = f"the command ended with exit code 0 but did not write it{said}"
            raise OutputError(f"Failed to read output file '{path}': {reason}", "process") from error
        what, fault = "output file", utf8_fault(content)
        text = content.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    if fault:
        raise OutputError(f"The {what} of the command is {fault}", "process")
    if not text.strip() and not may_be_empty:
        reason = f"The command ended with exit code 0, but its {what} is empty{said}"
        raise OutputError(reason, "no_answer")
    return text


def report_output(result: ProcessResult) -> str:
    """Return the text of a failed command. The last line comes first, for short reports."""
    said = masked(result.stderr.strip() or result.stdout.strip())
    end = said[-_LONGEST_REPORT:]
    left_out = len(said) - len(end)
    shown = f"[… {left_out} characters left out] {end}" if left_out else end
    lines = [line.strip() for line in end.split("\n") if re.search(r"\w", line)]
    return f"{lines[-1][:_LONGEST_LINE]}\n{shown}" if len(lines) > 1 else shown


def describe_exit(code: int) -> str:
    """Return `exit code 1`, or the signal that killed the command."""
    names = {each.value: each.name for each in signal.Signals}
    return f"exit code {code}" if code >= 0 else f"exit code unknown: killed by {names.get(-code, f'signal {-code}')}"


_LOGGER: Final = logging.getLogger(__name__)

DEFAULT_TIMEOUT_SECONDS: Final = 60.0
"""The default limit. Without one, a check that hangs would block the whole run."""


class HttpHealthcheck(Settings):
    """GET a URL; 2xx is healthy."""

    type: Literal["http"] = Field(default="http", description="`http`")
    url: Url = Field(description="the URL to GET")
    timeout_seconds: Seconds | None = Field(default=None, description="limit of the probe")


class CommandHealthcheck(Settings):
    """Run a command; exit code 0 is healthy."""

    type: Literal["command"] = Field(default="command", description="`command`")
    command_template: CommandTemplate = Field(description="the command to run, with placeholders such as {PROMPT}")
    cwd: Annotated[OptionalText, path_in("eval_dir", is_default=True)] = Field(
        default=None, validate_default=True, description="where it runs, relative to the eval file's folder"
    )
    timeout_seconds: Seconds | None = Field(default=None, description="limit of the probe")


def _healthcheck(value: object) -> object:
    if isinstance(value, Settings):
        return value
    if not isinstance(value, dict):
        raise expected("a mapping with the key type")
    if value.get("type") not in ("http", "command"):
        raise ValueError(f"type must be 'http' or 'command', got {describe_value(value.get('type'))}")
    return {key: item for key, item in value.items() if item is not None}


Healthcheck: TypeAlias = Annotated[
    Annotated[HttpHealthcheck | CommandHealthcheck, Field(discriminator="type")], BeforeValidator(_healthcheck)
]


class Cli(Provider):
    """A command line, rendered and run once per case (agentv-formats 4.6)."""

    kind = "cli"
    leaves_files = True
    takes_workspace = True
    answers_by_id = True

    command_template: CommandTemplate = Field(description="the command to run, with placeholders such as {PROMPT}")
    stdin: InputTemplate | None = Field(
        default=None, description="the standard input of the command, with the same placeholders, filled in unquoted"
    )
    files_format: FilesFormat = spelled(
        *("files_format", "filesFormat", "attachments_format", "attachmentsFormat"),
        default="{path}",
        description="how each path of `{FILES}` is written, with `{path}` and `{basename}`",
    )
    cwd: Annotated[OptionalText, path_in("eval_dir", is_default=True)] = Field(
        default=None,
        validate_default=True,
        description="where it runs, relative to the eval file's folder (default: that folder)",
    )
    timeout_seconds: Seconds | None = Field(
        default=None,
        description="limit of one call; `--agentv-timeout` applies as well, the shorter one counts",
    )
    verbose: Flag = spelled(
        *("verbose", "cli_verbose", "cliVerbose"), default=False, description="log the commands and their exit codes"
    )
    keep_temp_files: Flag = spelled(
        *("keep_temp_files", "keepTempFiles", "keep_output_files", "keepOutputFiles"),
        default=False,
        description="leave prompt and output files where they are, for debugging",
    )
    env: dict[str, ShieldedText] = Field(
        default={}, description="variables of the command, in addition to those of the environment and of `.env`"
    )
    session: Flag = Field(
        default=False,
        description="whether the command remembers a conversation by its `{SESSION_ID}`, and gets only the new message",
    )
    healthcheck: Healthcheck | None = Field(
        default=None, description="a probe, once per run, before the first case; if it fails, the run ends"
    )

    @model_validator(mode="after")
    def _require_session_id(self) -> Self:
        if self.session and "{SESSION_ID}" not in f"{self.command_template} {self.stdin}":
            raise ValueError("`session: true` needs {SESSION_ID} in command_template or stdin")
        return self

    def open(self, environment: TargetEnvironment) -> "CliProvider":
        return CliProvider(environment.name, self, environment.variables, environment.target.provider_batching)

    @property
    def is_probed(self) -> bool:
        return self.healthcheck is not None

    @property
    def leaves_out_guidelines(self) -> bool:
        """Whether the command gets the question, but no guidelines. One without the question reads the cases itself."""
        text = f"{self.command_template} {self.stdin or ''}"
        names = set(KNOWN_PLACEHOLDER.findall(text))
        return (PROMPT_VARIABLE in text or bool(names & _PROMPTS)) and not names & _GUIDELINES

    @property
    def sources(self) -> Sources:
        return Sources((in_eval_dir(self.command_template),), folder=self.cwd)


class CliProvider(TargetAdapter):
    """Runs a command template with `/bin/sh` (agentv-formats 5.8)."""

    mode: PromptMode = "agent"

    def __init__(self, name: str, settings: Cli, environment: Mapping[str, str], is_batched: bool = False) -> None:
        self._name = name
        self._settings = settings
        self._environment = {**environment, **{key: reveal(value) for key, value in settings.env.items()}}
        self._cwd = settings.cwd or str(Path.cwd())
        self._batch_ids: set[str] | None = set() if is_batched else None  # the cases that were sent in one call
        self._has_output_file = "{OUTPUT_FILE}" in settings.command_template
        self._has_prompt_file = "{PROMPT_FILE}" in settings.command_template + (settings.stdin or "")

    async def check(self) -> None:
        if self._settings.healthcheck is not None:
            await run_healthcheck(
                self._settings.healthcheck,
                target_name=self._name,
                environment=self._environment,
                timeout_seconds=self._settings.timeout_seconds,
            )

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        def parse(content: str) -> list[ProviderResponse]:
            if self._batch_ids is None:
                return [parse_output(content)]
            return [parse_one_of_batch(content, request.eval_id, self._batch_ids)]

        with self._folder(request.eval_id) as folder:
            (response,) = await self._run(request, folder / "output.json", parse)
            return response

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Run the command once for all requests. It writes a JSON line with an `id` for each."""
        paths = tuple(path for request in requests for path in request.file_paths)
        eval_ids = [request.eval_id for request in requests]
        self._batch_ids = {*(self._batch_ids or ()), *eval_ids}
        with self._folder("batch") as folder:
            whole = ProviderRequest(Prompt(""), "batch", input_paths=paths, timeout_seconds=total_seconds(requests))
            try:
                read = partial(parse_batch_output, eval_ids=eval_ids)
                return await self._run(whole, folder / "output.jsonl", read)
            except OutputError as error:
                return [ProviderResponse(error=str(error), error_kind=error.kind) for _ in requests]

    def _folder(self, eval_id: str) -> AbstractContextManager[Path]:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", eval_id)[:40]
        keep = self._settings.keep_temp_files and (self._has_output_file or self._has_prompt_file)
        return temporary_folder(f"agentv-{name}-", keep=keep)

    async def _run(
        self, request: ProviderRequest, output_file: Path, parse: Callable[[str], list[ProviderResponse]]
    ) -> list[ProviderResponse]:
        settings, limit = self._settings, shortest(self._settings.timeout_seconds, request.timeout_seconds)
        request = request.replace(session=request.session or uuid4().hex)
        command = render_command(settings.command_template, call_values(request, settings.files_format, output_file))
        texts = call_values(request, settings.files_format, output_file, str)
        if self._has_prompt_file:
            output_file.with_name("prompt.txt").write_text(texts["PROMPT"], "utf-8", newline="")
        stdin = None
        if settings.stdin is not None:
            stdin = render_command(settings.stdin, texts).encode("utf-8", "surrogateescape")
        self._log("target %s: running %s", self._name, command)
        cwd, variables = self._cwd, with_prompt(self._environment, texts["PROMPT"])
        argv = shell_argv(command, output_file.parent)
        if request.workspace is not None:
            cwd, variables = request.workspace, {**variables, EVAL_DIR: cwd}
            argv = request.sandboxed(argv, output_file.parent)
        try:
            leaves_nothing = cwd != self._cwd
            result = await run_process(
                argv, cwd=cwd, env=variables, stdin=stdin, timeout_seconds=limit, leaves_nothing=leaves_nothing
            )
        except ProcessStartError as error:
            raise ProviderError(f"CLI provider could not be started: {error}", "process") from error
        duration_ms = round(result.duration_ms)
        self._log("target %s: exit code %d after %d ms", self._name, result.exit_code, duration_ms)
        if result.stderr:
            self._log("target %s: stderr: %s", self._name, result.stderr.rstrip())
        raise_for_failure(result, limit)
        raw: dict[str, object] = {"command": command, "exit_code": result.exit_code, "stderr": result.stderr}

        def read() -> list[ProviderResponse]:
            path = output_file if self._has_output_file else None
            found, responses = parse(read_output(result, path, may_be_empty=cwd != self._cwd)), []
            for response in found:
                took = round(duration_ms / len(found)) if response.duration_ms is None else response.duration_ms
                place = None if response.trace_ref is None else str(Path(cwd, response.trace_ref))
                # now, because the command may have written the trace into its own folder
                responses.append(with_trace(response.replace(duration_ms=took, raw=raw, trace_ref=place)))
            return responses

        # in a thread: a file on a network may block and a long answer takes time, and other cases must not wait
        return await run_in_thread(read, "agentv-read")

    def _log(self, message: str, *values: object) -> None:
        level = logging.INFO if self._settings.verbose else logging.DEBUG
        if _LOGGER.isEnabledFor(level):
            _LOGGER.log(level, message, *(masked(value) if isinstance(value, str) else value for value in values))


async def run_healthcheck(
    healthcheck: HttpHealthcheck | CommandHealthcheck,
    *,
    target_name: str,
    environment: Mapping[str, str],
    timeout_seconds: float | None,
    kind: str = "CLI",
) -> None:
    """Probe a target; `timeout_seconds` is its own limit. Raises `ProviderError` if it is not healthy."""
    limit = healthcheck.timeout_seconds or timeout_seconds or DEFAULT_TIMEOUT_SECONDS
    try:
        if isinstance(healthcheck, HttpHealthcheck):
            await _probe_url(healthcheck.url, limit, environment)
        else:
            await _probe_command(healthcheck, environment, limit)
    except ProviderError as fault:
        raise ProviderError(f"{kind} healthcheck failed for '{target_name}': {fault}", fault.kind) from fault


async def _probe_url(url: str, limit: float, environment: Mapping[str, str]) -> None:
    asked = f"GET {shown_url(url)}"
    client = HttpClient(asked, "the health check", environment)
    await client.ready()  # no part of the time that the health check may take
    try:
        async with asyncio.timeout(limit):
            reply = await client.exchange(HttpRequest("GET", url))
    except TimeoutError as error:
        raise ProviderError(f"{asked} did not answer within {format_number(limit)}s", "timeout") from error
    except RequestError as error:
        raise ProviderError(error.failure.message, "network") from error
    finally:
        await client.close()
    if not is_success(reply.status):
        raise ProviderError(f"{asked} answered {reply.status}, expected 2xx", "network")


async def _probe_command(healthcheck: CommandHealthcheck, environment: Mapping[str, str], limit: float) -> None:
    output_file = Path(tempfile.gettempdir(), "agentv-healthcheck.json")
    values = call_values(ProviderRequest(Prompt(""), "healthcheck"), "{path}", output_file)
    command = render_command(healthcheck.command_template, {**values, "PROMPT_FILE": "/dev/null"})
    try:
        result = await run_process(
            ["/bin/sh", "-c", command], cwd=healthcheck.cwd or str(Path.cwd()), env=environment, timeout_seconds=limit
        )
    except ProcessStartError as error:
        raise ProviderError(str(error), "process") from error
    if result.timed_out:
        raise ProviderError(f"the command `{command}` timed out after {format_number(limit)}s", "timeout")
    if result.exit_code != 0:
        said = report_output(result)
        text = f"the command `{command}` ended with {describe_exit(result.exit_code)}"
        raise ProviderError(f"{text}: {said}" if said else text, "process")
