"""`code_judge`: a script that is given the case as JSON and prints its judgement as JSON (agentv-formats 6.5).

A judge that prints something else than a result, cannot be started, takes too long or exits with an error has not
judged. That says nothing about the answer: the case becomes an error, and the message says how to mend the script.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator

from pytest_agentv.errors import EvaluatorError, locate
from pytest_agentv.evaluators.base import Context, Evaluator, Services, or_sync, scope_of
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.evaluators.scripts.judgement import parse_judgement
from pytest_agentv.evaluators.scripts.payload import build_payload
from pytest_agentv.evaluators.scripts.python_words import python_words
from pytest_agentv.evaluators.scripts.script import ProcessRun, run_judge_script
from pytest_agentv.evaluators.scripts.target_proxy import TargetProxy
from pytest_agentv.evaluators.shared import KEYS
from pytest_agentv.loading.cases.scripts import INTERPRETER, SCRIPT_SUFFIXES, find_cwd, script_command
from pytest_agentv.loading.problems import near_file
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.kind import FILLED_TEXT, Part, Text, definition, expected, spelled
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.scores import Score
from pytest_agentv.runtime.processes.process import run_process

DEFAULT_PROXY_CALLS: Final = 50

DEFAULT_MEMORY_MB: Final = 1024

COMMAND_SCHEMA: Final = {"anyOf": [FILLED_TEXT, {"type": "array", "items": FILLED_TEXT, "minItems": 1}]}
PROXY_SCHEMA: Final = {"anyOf": [{"type": "boolean"}, definition("Proxy")]}
REUSE_SCHEMA: Final = {"anyOf": [{"type": "boolean"}, definition("Reuse")]}


class Proxy(Part):
    """Lets a judge script call targets of the run."""

    max_calls: int = spelled(
        "max_calls", "maxCalls", default=DEFAULT_PROXY_CALLS, ge=0, description="how many calls it may make"
    )


class Reuse(Part):
    """Imports a Python script once and calls its `judge(case)` for each case, in a process of its own."""

    memory_mb: int = spelled(
        "memory_mb", "memoryMb", default=DEFAULT_MEMORY_MB, ge=1, description="megabytes that a judgement may take"
    )


def _reuse(value: Json) -> Json:
    if isinstance(value, bool):
        return {} if value else None
    if value is not None and not isinstance(value, dict | Reuse):
        raise expected("true or a mapping with memory_mb")
    return value


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
    reuse: Annotated[Reuse | None, BeforeValidator(_reuse), WithJsonSchema(REUSE_SCHEMA)] = Field(
        default=None,
        description="imports a Python script once and calls its function `judge(case)` for each case: `true`, or a "
        "mapping with `memory_mb`",
    )

    @field_validator("script")
    @classmethod
    def _find_script(cls, value: str | tuple[str, ...], info: ValidationInfo) -> str | tuple[str, ...]:
        scope = scope_of(info)
        if scope is None or isinstance(value, tuple):
            return value
        return script_command(value, Path(info.data.get("cwd") or scope.references.eval_dir), scope)

    @field_validator("reuse")
    @classmethod
    def _find_python(cls, value: Reuse | None, info: ValidationInfo) -> Reuse | None:
        script, cwd = info.data.get("script"), info.data.get("cwd")
        if value is not None and script is not None and python_words(_command(script), Path(cwd or ".")) is None:
            raise expected("a `script` in Python, such as judge.py or [python, judge.py], beside `reuse: true`")
        return value

    @property
    def command(self) -> tuple[str, ...]:
        return _command(self.script)

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

    def _own_keys(self) -> JsonObject:
        """Return the keys for the script: its own, and the shared keys that older scripts expect."""
        given = [key for key in KEYS if key in self.model_fields_set]
        shared: dict[str, Json] = {key: getattr(self, key) for key in given}
        return {**(self.model_extra or {}), **shared}

    async def _judge(self, context: Context, variables: Mapping[str, str], masker: Masker) -> Score:
        cwd = self.cwd or str(Path(context.case.path).parent)
        stdout = await run_judge_script(
            self.command,
            build_payload(context, self._own_keys() or None),
            cwd=cwd,
            environment={**context.services.environment, **variables},
            timeout_seconds=context.timeout_seconds,
            masker=masker,
            run=self._run(Path(cwd), variables),
        )
        return await off_loop(len(stdout), parse_judgement, stdout)

    def _run(self, cwd: Path, variables: Mapping[str, str]) -> ProcessRun:
        python = None if self.reuse is None else python_words(self.command, cwd)
        if self.reuse is None or python is None:
            return run_process
        from pytest_agentv.evaluators.scripts.reuse import forked_from  # noqa: PLC0415 - only `reuse` needs a server

        return forked_from(*python, self.reuse.memory_mb, variables)


def _command(script: str | tuple[str, ...]) -> tuple[str, ...]:
    return ("sh", "-lc", script) if isinstance(script, str) else script
