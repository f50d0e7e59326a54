"""`python`: an expression, or a function of a file, that judges in this process."""

import ast
import asyncio
import builtins
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from pytest_agentv.errors import EvaluatorError, ProviderError, locate
from pytest_agentv.evaluators.answer_data import parse_answer, with_findings
from pytest_agentv.evaluators.base import Evaluator, scope_of
from pytest_agentv.evaluators.calls import calls_of, why_unknown
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.run import recordable
from pytest_agentv.files.places import NAMES as ELSEWHERE
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import ABSENT, Json, is_number, own_copy, unshared
from pytest_agentv.model.kind import Text
from pytest_agentv.model.results import Score
from pytest_agentv.model.secrets import beginning
from pytest_agentv.providers.user_modules import import_callable
from pytest_agentv.runtime.user_code import run_in_thread, user_traceback

FUNCTION: Final = re.compile(r"[^\s:()\"']+\.py:[A-Za-z_]\w*|[^:()\"']+/[^:()\"']+\.py:[A-Za-z_]\w*")
"""`file.py:function`, but nothing that could be an expression."""

NAMES: Final = ("answer", "data", "case", "vars", "tool_calls", "metrics")
"""The names that an expression may use, and the parameters that a function may have."""

_SHOWN: Final = 200


class PythonCheck(Evaluator):
    """A Python expression is true of the answer, or a function of a file judges it. Both run in this process.

    Code that looks at `tool_calls` is an ERROR if the target does not report its tool calls.
    """

    kind = "python"
    examples = (
        {
            "answer": "The tent costs 120 euros.",
            "assert": [{"python": 'len(answer) < 500 and "tent" in answer'}, {"python": "checks.py:is_polite"}],
        },
    )

    value: Text = Field(
        description="an expression, or `file.py:function`; both may use `answer`, `data` (its JSON, or None), `case`, "
        "`vars`, `tool_calls` and `metrics`, a function by the names of its parameters",
        examples=["len(answer) < 500"],
    )

    @field_validator("value")
    @classmethod
    def _check(cls, value: str, info: ValidationInfo) -> str:
        """Return an expression unchanged, and a function with the absolute path of its file."""
        scope = scope_of(info)
        if FUNCTION.fullmatch(value.strip()):
            if scope is None:
                return value.strip()
            path, _, name = value.strip().rpartition(":")
            reference = scope.references.find(path)
            if reference.path is None or not reference.path.is_file():
                raise ValueError(f"file {reference.describe_missing()}")
            fault = function_fault(reference.path, name)
            if fault:
                raise ValueError(fault)
            return f"{reference.path}:{name}"
        try:
            names = _expression(value).names
        except (SyntaxError, ValueError) as error:
            message = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ValueError(f"{value!r} is no Python expression: {message}") from None
        for name in names:
            if name not in NAMES and not hasattr(builtins, name):
                raise ValueError(f"the name {name!r} is not known ({_name_hint(name, 'names')})")
        return value

    def summary(self) -> str:
        path, _, name = self.value.rpartition(":")
        return f"{Path(path).name}:{name}" if self._is_function else self.value

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        path = self.value.rpartition(":")[0]
        return ((str(Path(path).parent), ("python", path)),) if self._is_function else ()

    @property
    def _is_function(self) -> bool:
        return FUNCTION.fullmatch(self.value) is not None

    async def evaluate(self, context: Context) -> Score:
        """Call the code in a thread of its own, which is stopped when it takes too long."""
        limit = context.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                return await run_in_thread(lambda: self._judge(context), "agentv-python", stop=True)
        except TimeoutError:
            raise EvaluatorError(f"no result within {limit or 0:g} s", "timeout") from None

    def _judge(self, context: Context) -> Score:
        try:
            code = _function(self.value) if self._is_function else _expression(self.value)
            value = code.run(_values(context, code))
        except EvaluatorError:
            raise
        except BaseException as error:
            raise EvaluatorError(f"{self.summary()} raised {user_traceback(error)}") from error
        return read_result(value, self.summary())


class _Code(NamedTuple):
    """What judges: an expression or a function."""

    run: Callable[[dict[str, Any]], Any]
    names: Collection[str]
    """The values that it uses."""
    needed: Collection[str]
    """Those that it cannot do without."""


@lru_cache(maxsize=512)
def _expression(text: str) -> _Code:
    """Return an expression. Raises `SyntaxError` and `ValueError`."""
    tree = ast.parse(text.strip(), "<python>", "eval")
    nodes = list(ast.walk(tree))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    read = dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    names = [name for name in read if name in NAMES or name not in own]
    code = compile(tree, "<python>", "eval")
    return _Code(lambda values: eval(code, values), names, names)  # noqa: S307 - the author's own code


def _values(context: Context, code: _Code) -> dict[str, Any]:
    """Return the values that code uses, as copies: changes by the code affect no other check or case."""
    values: dict[str, Any] = {"answer": context.candidate_answer, "metrics": context.metrics}
    if "case" in code.names:
        values["case"] = own_copy(context.case)
    if "vars" in code.names:
        values["vars"] = unshared(context.case.vars or {})
    if "tool_calls" in code.names:
        calls = calls_of(context)[0]
        if calls is not None or context.dry_run:  # the mock of a dry run never reports any
            values["tool_calls"] = tuple(
                call.replace(input=unshared(call.input), output=unshared(call.output)) for call in calls or ()
            )
        elif "tool_calls" in code.needed:
            raise EvaluatorError(why_unknown(context), "config")
    if "data" in code.names:
        data = parse_answer(context.candidate_answer) if context.part is ABSENT else unshared(context.part)
        values["data"] = None if data is ABSENT else data
    return values


@lru_cache(maxsize=512)
def _function(name: str) -> _Code:
    """Import a function, once in this process."""
    path = Path(name.rpartition(":")[0])
    try:
        function = import_callable(name, path.parent, f"python: {path.name}", "a function")
    except ProviderError as error:
        raise EvaluatorError(str(error), "config") from None
    parameters = inspect.signature(function).parameters.values()
    names = NAMES if any(each.kind is each.VAR_KEYWORD for each in parameters) else [each.name for each in parameters]

    def run(values: Mapping[str, Any]) -> Any:
        value = function(**{name: value for name, value in values.items() if name in names})
        return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value

    return _Code(run, names, [each.name for each in parameters if each.default is each.empty])


async def _awaited(value: Any) -> Any:
    return await value


def read_result(value: Any, what: str) -> Score:
    """Turn the return value of code into a score. Raises `EvaluatorError` for a value that is no judgement."""
    if isinstance(value, Score | Mapping):
        return recordable(value if isinstance(value, Score) else _read_mapping(value, what), what)
    if isinstance(value, bool):
        text = beginning(what, _SHOWN)
        return Score(1.0, hits=(f"{text} is true",)) if value else Score(0.0, misses=(f"{text} is false",))
    return Score(_number(value, f"{what} returned"))


def _read_mapping(value: Mapping[str, Json], what: str) -> Score:
    known = ("score", "hits", "misses", "reasoning", "details")
    unknown = [str(key) for key in value if key not in known]
    if unknown or "score" not in value:
        fault = f"the key {unknown[0]!r}" if unknown else "no key `score`"
        raise EvaluatorError(f"{what} returned a mapping with {fault}: its keys are {', '.join(known)}", "config")
    score = value["score"]
    number = float(score) if isinstance(score, bool) else _number(score, f"{what} returned the score")
    return with_findings(number, value).replace(details=value.get("details"))


def _number(value: Any, what: str) -> float:
    if not is_number(value) or not 0 <= value <= 1:
        shown = beginning(repr(value), _SHOWN)
        wanted = "True or False, a number from 0 to 1, a mapping with `score`, or a Score"
        raise EvaluatorError(f"{what} {shown}, expected {wanted}", "config")
    return float(value)


def function_fault(path: Path, name: str) -> str | None:
    """Return why a function of a file cannot judge: it is missing, or has an unknown parameter."""
    try:
        text = path.read_bytes()
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        return f"{locate(path, line)}: {error.msg if isinstance(error, SyntaxError) else error}"
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    function = functions.get(name)
    if function is None:
        if re.search(rf"\b{name}\b|import \*".encode(), text):  # imported, or made in another way
            return None
        hint = did_you_mean(name, functions)
        return f"{locate(path, None)} has no function {name!r}" + (f" ({hint})" if hint else "")
    if function.decorator_list:  # it may be called differently
        return None
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    required = positional[: len(positional) - len(given.defaults)]
    required += [each for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if not default]
    unknown = next((each.arg for each in required if each.arg not in NAMES), None)
    if unknown is None:
        return None
    return f"the function {name!r} wants {unknown!r}, which it is not given ({_name_hint(unknown, 'parameters')})"


def _name_hint(name: str, what: str) -> str:
    """Return the replacement for a name that code does not get."""
    return ELSEWHERE.get(name) or did_you_mean(name, NAMES) or f"{what}: {', '.join(NAMES)}"
