"""The base of every kind of evaluator. Importing this costs pydantic: import it lazily."""

import itertools
import json
import re
from abc import abstractmethod
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, ValidationInfo, WithJsonSchema

from pytest_agentv.cases.references import Scope
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind import Amount, Kind, Text, expected
from pytest_agentv.model.kind_table import NEGATION
from pytest_agentv.model.results import Score
from pytest_agentv.model.secrets import beginning, masked

_NAME_LENGTH: Final = 60
"""Most characters of a derived name that say what is checked."""
_STEPS: Final = r"(?:[^.\[\]]+|\[[0-9]+\])(?:\.[^.\[\]]+|\[[0-9]+\])*"


def _path(value: str) -> str:
    """Return a path without the `$` with which JSONPath begins."""
    path = re.sub(r"^\$(?:\.|(?=\[))", "", value)
    if not re.fullmatch(_STEPS, path):
        raise expected("a path such as items[0].price")
    return path


AnswerPath: TypeAlias = Annotated[
    Text,
    AfterValidator(_path),
    WithJsonSchema({"type": "string", "pattern": rf"^(?=.*\S)(?:\$\.?)?{_STEPS}$"}),
]
"""The place of a part of a JSON answer."""


def finite(value: Json) -> Json:
    """Return data without NaN and infinities, which no answer equals: a negated check would always pass."""
    try:
        json.dumps(value, allow_nan=False, default=str, skipkeys=True)
    except ValueError:
        raise expected("data without NaN and infinities") from None
    return value


ExpectedData: TypeAlias = Annotated[Any, AfterValidator(finite)]
"""What an answer, or a part of it, has to be."""


class Evaluator(Kind):
    """Judges an answer. The fields are the keys that an eval file may have for it.

    A bad answer is a low `Score`. `EvaluatorError` says that the answer could not be judged: the case is then an error.
    """

    name: Text | None = Field(
        default=None,
        description="the name in results; default: the kind and what it checks",
        examples=["refund period"],
    )
    weight: Amount = Field(
        default=1.0, description="its share in the case's score; 0 reports without counting", examples=[2]
    )
    required: bool = Field(
        default=False, description="whether the case fails without it, whatever the mean", examples=[True]
    )
    negate: bool = Field(
        default=False,
        description="whether the verdict is inverted; `not-` before the kind means the same",
        examples=[True],
    )
    path: AnswerPath | None = Field(
        default=None,
        description="the part of a JSON answer that is judged, instead of all of it",
        examples=["items[0].price"],
    )
    turn: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="the turn of a conversation that is judged, from 1, instead of the last answer",
        examples=[2],
    )

    file: Text | None = Field(
        default=None,
        description="the file of the workspace that is judged, instead of the answer; `diff`: what has changed there, "
        "`changed`: the list of changed files",
        examples=["diff"],
    )

    short_key: ClassVar[str | None] = "value"
    """The key that a value stands for in the short form `{kind: value}`; None: the value holds all keys."""
    takes_data: ClassVar[bool] = False
    """Whether a mapping in the short form is the value of `short_key`, and not the keys."""
    is_graded: ClassVar[bool] = True
    """Whether a score between 0 and 1 can be good enough: `required` asks for the case's threshold, else for 1."""
    reads_conversation: ClassVar[bool] = False
    """Whether it judges all turns of a conversation, unless `turn` chooses one, and not the last answer."""
    reads_answer: ClassVar[bool] = True
    """Whether it judges the answer itself, so that `path` can choose a part of the answer."""
    examples: ClassVar[Sequence[JsonObject]] = ()
    """Example cases: `answer`, `assert`, and other keys of a case. They pass."""

    _derived_name: str | None = PrivateAttr(default=None)

    @abstractmethod
    def evaluate(self, context: Context) -> Awaitable[Score] | Score:
        """Judge an answer: write `async def evaluate`, or `def evaluate`, which runs in a thread.

        Raises `EvaluatorError` when the answer cannot be judged; any other exception is an error of the case as well.
        """
        raise NotImplementedError

    def prepare(self, services: Services) -> "Evaluator | None":  # noqa: ARG002 - most kinds need nothing
        """Return the evaluator that judges, before the target is called; None: this one. It cannot be async.

        Raises `EvaluatorError` (kind `config`) if it could never judge, so that no answer is paid for in vain.
        """
        return self

    @property
    def label(self) -> str:
        """The name in results: its own name, else its kind and what it checks."""
        return self.name or masked(self._derived_name or self.kind)

    def summary(self) -> str:
        """Return what it checks, for its name; empty: the kind says it all, as for kinds of users by default."""
        if self.short_key is None or self.own_code is not None:
            return ""
        value = getattr(self, self.short_key, None)
        return value if isinstance(value, str) else ""

    def doubts(self, case: EvalCase) -> Iterable[str]:  # noqa: ARG002 - most kinds have none
        """Yield warnings for `agentv validate`: what is checked, in this case, in another way than it looks."""
        return ()

    def required_score(self, threshold: float) -> float:
        """Return the score, 0 to 1, from which it is satisfied if it is `required`: the threshold of the case, or 1."""
        return threshold if self.is_graded else 1.0

    def at_own_threshold(self, score: Score) -> Score:
        """Return the score, held against a `threshold` of its own, if the kind has one."""
        return score

    def derived_name(self, summary: str | None = None) -> str:
        """Return the kind, what it checks (else `summary()`), and the part that it judges: `not-equals: 1 (a.b)`."""
        text = self.summary() if summary is None else summary
        checked = beginning(" ".join(text.split()), _NAME_LENGTH)
        parts = ", ".join(part for part in (self.file, self.path) if isinstance(part, str))
        name = f"{NEGATION if self.negate is True else ''}{self.kind}"
        return name + (f": {checked}" if checked else "") + (f" ({parts})" if parts else "")

    def with_name_beside(self, taken: Collection[str], name: str | None = None) -> Self:
        """Return the evaluator, or a copy, with a unique name: its own, else `name`, else the derived one."""
        if self.name is not None:
            return self
        base = name or self.derived_name()
        base = f"turn {self.turn}: {base}" if self.turn else base
        names = itertools.chain([base], (f"{base} ({number})" for number in itertools.count(2)))
        name = next(each for each in names if each not in taken)
        if self._derived_name == name:
            return self
        named = self if self._derived_name is None else self.model_copy()
        named._derived_name = name
        return named

    @classmethod
    def keys_of(cls, value: Json) -> JsonObject:
        """Return the keys that the value of the short form `{kind: value}` stands for."""
        if isinstance(value, Mapping) and not cls.takes_data:
            return value
        key = cls.short_key
        field = cls.model_fields.get(key or "")
        if value is None or (value is True and (field is None or not field.is_required())):
            return {}
        if key is None or field is None:
            raise expected("a mapping of its keys")
        return {key: value}

    @property
    def _held(self) -> "Sequence[Evaluator]":
        """The evaluators that it calls."""
        return ()

    @property
    def asks_judge(self) -> bool:
        """Whether it asks a model, so that the target needs a judge."""
        return any(each.asks_judge for each in self._held)

    @property
    def judged_by(self) -> tuple[str, ...]:
        """The judges that it names, a panel if several; empty: that of its composite, else of the case."""
        return ()

    @property
    def asked_judges(self) -> tuple[str | None, ...]:
        """The judges that it and its members ask, by name; None stands for the judge of the case."""
        if not self.asks_judge:
            return ()
        names = [name for each in self._held for name in each.asked_judges]
        if not names or self.own_code is not None:
            names.append(None)
        own = self.judged_by or (None,)
        return tuple(dict.fromkeys(name for each in names for name in (own if each is None else (each,))))

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        """The commands that it runs, each with its folder. A resumed run checks whether their files have changed."""
        return ()

    @property
    def own_code(self) -> object:
        """The user's code that judges, for the same purpose; None for a built-in kind."""
        return None if type(self).__module__.startswith("pytest_agentv.") else type(self)

    @property
    def embeds_with(self) -> str | None:
        """The target whose embeddings it compares; None: it compares none."""
        return None

    def walk(self) -> "Iterator[Evaluator]":
        """Yield the evaluator and its members."""
        yield self
        for each in self._held:
            yield from each.walk()

    @property
    def calls_targets(self) -> bool:
        """Whether one of its scripts may call targets."""
        return any(each.calls_targets for each in self._held)


class UnknownKind(Evaluator):
    """Stands for a kind of a plugin whose keys nobody knows. It only loads."""

    model_config = ConfigDict(extra="allow")

    kind = "unknown"

    path: Any = None

    def evaluate(self, context: Context) -> Score:
        raise NotImplementedError


def scope_of(info: ValidationInfo) -> Scope | None:
    """Return the place in an eval file that is read, and what it may refer to; None: built from Python."""
    return info.context if isinstance(info.context, Scope) else None
