"""The shapes of evaluators that refer to files: code judges and LLM judges (agentv-formats 6.3 to 6.5).

Imports pydantic: import this lazily.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import AliasChoices, BeforeValidator, Field

from pytest_agentv.loading.edge_models import Amount, EdgeModel, FilledText
from pytest_agentv.loading.evaluator_models import EvaluatorModel
from pytest_agentv.loading.judge_templates import check_judge_template, load_template
from pytest_agentv.loading.problems import describe_value
from pytest_agentv.loading.references import Scope
from pytest_agentv.models.base import Json
from pytest_agentv.models.evaluator_configs import (
    DEFAULT_PROXY_CALLS,
    CodeJudgeConfig,
    LlmJudgeConfig,
    ProxyConfig,
    Rubric,
)

_INTERPRETERS: Final = {".py": sys.executable, ".js": "node", ".mjs": "node", ".sh": "sh"}
"""What runs a script that is named by its path alone and does not name its interpreter itself."""


class ProxyModel(EdgeModel):
    max_calls: Annotated[int, Field(ge=0)] = Field(
        DEFAULT_PROXY_CALLS, validation_alias=AliasChoices("max_calls", "maxCalls")
    )


def _proxy(value: Json) -> Json:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict):
        message = f"expected true or a mapping with max_calls, got {describe_value(value)}"
        raise ValueError(message)  # noqa: TRY004 - pydantic wants it
    return value


def _script(value: Json) -> Json:
    if isinstance(value, str) and value.strip():
        return value
    words = value if isinstance(value, list) else []
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise ValueError(f"expected a command: a text or a list of non-empty texts, got {describe_value(value)}")
    return value


class CodeJudgeModel(EvaluatorModel):
    is_open: ClassVar[bool] = True

    script: Annotated[Any, BeforeValidator(_script)]
    cwd: FilledText | None = None
    target: Annotated[ProxyModel | None, BeforeValidator(_proxy)] = None

    def config(self, scope: Scope) -> CodeJudgeConfig:
        cwd = find_cwd(self.cwd, scope)
        return CodeJudgeConfig(
            script=tuple(self.script) if isinstance(self.script, list) else _command(self.script, cwd, scope),
            cwd=str(cwd),
            target=ProxyConfig(self.target.max_calls) if self.target else None,
            config=dict(self.model_extra) if self.model_extra else None,
        )


def find_cwd(cwd: str | None, scope: Scope) -> Path:
    """Return the folder that a script is run in; without one, or where it is missing, the eval file's."""
    folder = scope.references.find_folder(cwd, scope.place.at("cwd")) if cwd else None
    return folder or scope.references.eval_dir


def _command(script: str, cwd: Path, scope: Scope) -> tuple[str, ...]:
    """Return the command of a script written as one text: a shell command, or the path of a script file.

    Source: evaluation-2025-11, "Code evaluator execution" (paths); agentv-formats 6.5 (shell commands).
    """
    interpreter = _INTERPRETERS.get(Path(script.strip()).suffix)
    if interpreter is not None:
        reference = scope.references.find(script.strip(), cwd)
        if reference.path is not None and reference.path.is_file():
            path = str(reference.path)
            return (path,) if _names_its_interpreter(reference.path) else (interpreter, path)
        if "/" in script and len(script.split()) == 1:
            scope.place.at("script").error(f"file {reference.describe_missing()}")
    return "sh", "-lc", script


def _names_its_interpreter(script: Path) -> bool:
    """Tell whether a file is executable and begins with `#!`, so that a shell would run it as it stands."""
    if not os.access(script, os.X_OK):
        return False
    try:
        with script.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _described(value: Json) -> Json:
    return {"description": value} if isinstance(value, str) else value


class RubricModel(EdgeModel):
    id: FilledText | None = None
    description: FilledText
    weight: Amount = 1.0
    required: bool = True


Rubrics: TypeAlias = list[Annotated[RubricModel, BeforeValidator(_described)]]
"""A text stands for a rubric of that description."""


class CaseRubricsModel(EdgeModel):
    """The `rubrics` of a case."""

    rubrics: Rubrics


def create_rubrics(models: list[RubricModel]) -> tuple[Rubric, ...]:
    return tuple(
        Rubric(model.id or f"rubric-{number}", model.description, model.weight, model.required)
        for number, model in enumerate(models, start=1)
    )


NO_MODEL: Final = {"model": "the judge is the target's `judge_target`"}


class LlmJudgeModel(EvaluatorModel):
    hints: ClassVar[Mapping[str, str]] = NO_MODEL

    prompt: FilledText | None = None
    prompt_path: FilledText | None = Field(None, validation_alias=AliasChoices("prompt_path", "promptPath"))
    rubrics: Rubrics = Field(default_factory=list)
    include_trace: bool = Field(False, validation_alias=AliasChoices("include_trace", "includeTrace"))

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        if self.rubrics:
            given = {"prompt": self.prompt, "prompt_path": self.prompt_path}
            for key in (key for key, value in given.items() if value is not None):
                yield key, "a judge with rubrics has a prompt of its own; split it into two evaluators"

    def config(self, scope: Scope) -> LlmJudgeConfig:
        template = load_template(self.prompt, self.prompt_path, scope.place, scope.references)
        if template is not None:
            check_judge_template(template, scope.place.at("prompt" if self.prompt is not None else "prompt_path"))
        return LlmJudgeConfig(template.text if template else None, create_rubrics(self.rubrics), self.include_trace)


class RubricJudgeModel(LlmJudgeModel):
    """`type: rubric`, the older spelling of an LLM judge with rubrics."""

    rubrics: Annotated[Rubrics, Field(min_length=1)]
