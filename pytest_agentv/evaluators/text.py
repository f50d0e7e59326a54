"""Checks of a text: what the answer contains, begins and ends with, and how long it is."""

import asyncio
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.run import ONLY_DIFFERS
from pytest_agentv.model.base import trim
from pytest_agentv.model.kind import FILLED_TEXT, NOT_EMPTY, Items, Text, expected, spelled
from pytest_agentv.model.results import Score
from pytest_agentv.model.secrets import beginning, masked

_SHOWN: Final = 80
"""Characters of a text that a finding shows."""

_PLAIN: Final = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\xad\u200b\u200c\u200d\u2060\ufeff", ""),
}
"""Characters of typography, and those of keyboards that look like them; nothing for invisible ones."""

Finds: TypeAlias = Callable[[str, str], bool]
"""Whether an answer has a text, by the rule of a check; such as `str.startswith`."""


def contains_folded(answer: str, text: str) -> bool:
    return text.casefold() in answer.casefold()


def has_word(answer: str, text: str) -> bool:
    """Whether a text stands at word boundaries, with any white space between its parts; case does not count."""
    return _pattern(text).search(answer.casefold()) is not None


@lru_cache(maxsize=512)
def _pattern(word: str) -> re.Pattern[str]:
    parts = r"\s+".join(map(re.escape, word.casefold().split()))
    return re.compile(rf"(?<!\w){parts}(?!\w)")


class TextCheck(Evaluator):
    """A check of the answer's text that takes microseconds."""

    is_graded = False

    @staticmethod
    def finds(answer: str, text: str, /) -> bool:
        """Whether an answer has a text, by the rule of the check."""
        return text in answer

    async def evaluate(self, context: Context) -> Score:
        return self.check(context.candidate_answer)

    def check(self, answer: str) -> Score:
        raise NotImplementedError


class FoundCheck(TextCheck):
    """Texts are in the answer: one of them, or the share that is there."""

    value: Text | Items[Text]

    gives_share: ClassVar[bool] = False

    def summary(self) -> str:
        return self.value if isinstance(self.value, str) else ", ".join(self.value)

    def check(self, answer: str) -> Score:
        wanted = (self.value,) if isinstance(self.value, str) else self.value
        found = [text for text in wanted if self.finds(answer, text)]
        lacking = [text for text in wanted if text not in found] if self.gives_share or not found else []
        return Score(
            len(found) / len(wanted) if self.gives_share else float(bool(found)),
            hits=tuple(f"contains {shown(text)}" for text in found),
            misses=tuple(f"lacks {shown(text)}{other_form(text, answer, self.finds)}" for text in lacking),
        )


def shown(text: str) -> str:
    """Return a text in quotes, cut if it is long."""
    return f'"{beginning(text, _SHOWN)}"'


def verdict(is_met: bool, hit: str, miss: str) -> Score:
    """Return 1 with a hit, or 0 with a miss."""
    return Score(1.0, hits=(hit,)) if is_met else Score(0.0, misses=(miss,))


def all_or_nothing(findings: Iterable[tuple[bool, str]], reasoning: str | None = None) -> Score:
    """Return 1 if all findings are hits, else 0. Each finding says first whether it is a hit."""
    known = list(findings)
    hits, misses = (tuple(text for is_hit, text in known if is_hit is kind) for kind in (True, False))
    return Score(0.0 if misses else 1.0, hits=hits, misses=misses, reasoning=reasoning)


def share(findings: Iterable[tuple[bool, str]], reasoning: str | None = None) -> Score:
    """Return the share of findings that are hits; there is at least one."""
    found = all_or_nothing(findings, reasoning)
    return found.replace(value=len(found.hits) / (len(found.hits) + len(found.misses)))


def other_form(wanted: str, answer: str, finds: Finds) -> str:
    """Return a note if a check misses only because of a character that people take for another one."""
    if (wanted.isascii() and answer.isascii()) or finds(answer, wanted):
        return ""

    def matches(but: str = "") -> bool:
        table = str.maketrans({key: value for key, value in _PLAIN.items() if key != but})
        return finds(*(unicodedata.normalize("NFKC", text.translate(table)) for text in (answer, wanted)))

    if not matches():
        return ""
    odd = [each for each in sorted({*wanted, *answer} & _PLAIN.keys()) if not matches(each)]
    said = ", ".join(
        f"the {'check' if each in wanted else 'answer'} has U+{ord(each):04X} {unicodedata.name(each)}"
        + (f" instead of {shown(_PLAIN[each])}" if _PLAIN[each] else "")
        for each in odd
    )
    return f"{ONLY_DIFFERS}{said or 'the Unicode form differs'})"


class Contains(FoundCheck):
    """A text is in the answer (case-sensitive)."""

    kind = "contains"
    examples = ({"answer": "You may return it within 30 days.", "assert": [{"contains": "30 days"}]},)

    value: Text = Field(description="what must be there", examples=["30 days"])


class ContainsAll(FoundCheck):
    """Several texts are in the answer."""

    kind = "contains-all"
    gives_share = True
    examples = ({"answer": "The tent costs 120 euros.", "assert": [{"contains-all": ["tent", "120"]}]},)

    value: Annotated[Items[Text], NOT_EMPTY] = Field(
        description="the texts; the score is the share that is there", examples=[["tent", "120"]]
    )


class ContainsAny(FoundCheck):
    """One of several texts is in the answer."""

    kind = "contains-any"
    examples = ({"answer": "We send it by post.", "assert": [{"contains-any": ["post", "courier"]}]},)

    value: Annotated[Items[Text], NOT_EMPTY] = Field(
        description="the texts; one of them must be there", examples=[["post", "courier"]]
    )


class IContains(Contains):
    """A text is in the answer (case-insensitive)."""

    kind = "icontains"
    finds = staticmethod(contains_folded)
    examples = ({"answer": "Free Shipping on all orders.", "assert": [{"icontains": "free shipping"}]},)


class IContainsAll(ContainsAll):
    """Several texts are in the answer (case-insensitive)."""

    kind = "icontains-all"
    finds = staticmethod(contains_folded)
    examples = ({"answer": "The Tent costs 120 Euros.", "assert": [{"icontains-all": ["tent", "euros"]}]},)


class IContainsAny(ContainsAny):
    """One of several texts is in the answer (case-insensitive)."""

    kind = "icontains-any"
    finds = staticmethod(contains_folded)
    examples = ({"answer": "We send it by Post.", "assert": [{"icontains-any": ["post", "courier"]}]},)


class EdgeCheck(TextCheck):
    """A text is at the beginning or at the end of the answer, blanks and byte order marks around both left out."""

    value: Text

    verb: ClassVar[str]

    def check(self, answer: str) -> Score:
        text, wanted = trim(answer), trim(self.value)
        if self.finds(text, wanted):
            return Score(1.0, hits=(f"{self.verb} with {shown(wanted)}",))
        edge = slice(len(wanted)) if self.verb == "starts" else slice(-len(wanted), None)
        held = masked(text)[edge]  # the masker could not find half a secret later
        note = other_form(wanted, text, self.finds)
        return Score(0.0, misses=(f"{self.verb} with {shown(held)}, not {shown(wanted)}{note}",))


class StartsWith(EdgeCheck):
    """The answer begins with a text."""

    kind = "starts-with"
    verb = "starts"
    finds = staticmethod(str.startswith)
    examples = ({"answer": "Yes, within 30 days.", "assert": [{"starts-with": "Yes"}]},)

    value: Text = Field(
        description="how the answer begins; whitespace around both is ignored", examples=["Dear customer"]
    )


class EndsWith(EdgeCheck):
    """The answer ends with a text."""

    kind = "ends-with"
    verb = "ends"
    finds = staticmethod(str.endswith)
    examples = ({"answer": "It costs 120 euros.", "assert": [{"ends-with": "euros."}]},)

    value: Text = Field(description="how the answer ends; whitespace around both is ignored", examples=["Kind regards"])


class Word(FoundCheck):
    """A word is in the answer, and not only a part of a word: `30` is not in "130". It is in "30.5" and "-30".

    Letters of all languages count, so `120` is not in "120元". Use `regex` for numbers and other borders.
    """

    kind = "word"
    finds = staticmethod(has_word)
    examples = ({"answer": "It costs 30 euros.", "assert": [{"word": "30"}, {"not-word": "euro"}]},)

    value: Text = Field(description="a word, or several in a row (case-insensitive)", examples=["30 euros"])


class Words(ContainsAll):
    """Several words are in the answer (case-insensitive), and not only as parts of words."""

    kind = "words"
    finds = staticmethod(has_word)
    examples = ({"answer": "The Tent costs 120 euros.", "assert": [{"words": ["tent", "120"]}]},)


Number: TypeAlias = Annotated[int, Field(ge=0)]


class Length(TextCheck):
    r"""The answer is neither too long nor too short; at least one limit is set.

    Whitespace around the answer does not count. Lines end as for `str.splitlines` of Python: with `\n`, `\r`, a form
    feed or U+2028, for example.
    """

    kind = "length"
    short_key = None
    examples = ({"answer": "It costs 120 euros.", "assert": [{"length": {"min_words": 3, "max_chars": 80}}]},)

    min_words: Number | None = spelled(
        "min_words", "minWords", default=None, description="the fewest words", examples=[20]
    )
    max_words: Number | None = spelled(
        "max_words", "maxWords", default=None, description="the most words", examples=[200]
    )
    min_chars: Number | None = spelled(
        "min_chars", "minChars", default=None, description="the fewest characters", examples=[100]
    )
    max_chars: Number | None = spelled(
        "max_chars", "maxChars", default=None, description="the most characters", examples=[1000]
    )
    max_lines: Number | None = spelled(
        "max_lines",
        "maxLines",
        default=None,
        description="the most lines, with the empty ones between them",
        examples=[10],
    )

    @model_validator(mode="after")
    def _needs_a_limit(self) -> Self:
        if not self.summary():
            raise ValueError("length needs a limit: min_words, max_words, min_chars, max_chars or max_lines")
        for least, most in ((self.min_words, self.max_words), (self.min_chars, self.max_chars)):
            if least is not None and most is not None and least > most:
                raise ValueError(f"no length is at least {least} and at most {most}")
        return self

    def summary(self) -> str:
        return ", ".join(f"{name} {limit}" for name, limit in self._limits())

    def check(self, answer: str) -> Score:
        text = answer.strip()
        counts = {"words": len(text.split()), "chars": len(text), "lines": len(text.splitlines())}
        findings: list[tuple[bool, str]] = []
        for name, limit in self._limits():
            bound, what = name.split("_")
            amount, noun = counts[what], "characters" if what == "chars" else what
            is_met, sign = (amount >= limit, "at least") if bound == "min" else (amount <= limit, "at most")
            findings.append((is_met, f"has {amount} {noun[:-1] if amount == 1 else noun} ({sign} {limit})"))
        return all_or_nothing(findings)

    def _limits(self) -> list[tuple[str, int]]:
        names = ("min_words", "max_words", "min_chars", "max_chars", "max_lines")
        return [(name, limit) for name in names if (limit := getattr(self, name)) is not None]


ERROR_SIGN: Final = re.compile(
    r"""(?mx)
    Traceback\ \(most\ recent\ call\ last\):
    | ^[ \t]+at\ [^\n]{0,300}:\d+\)?[ \t]*$                         # a frame of a JavaScript or Java stack trace
    | ^[ \t]*(?:Uncaught\ |Unhandled\ )?[\w.$]*(?:Error|Exception):  # ValueError: x; java.io.IOException: x
    | ^[ \t]*(?:error|fatal|ERROR|FATAL|panic|PANIC|Fatal\ error):
    | ^Exception\ in\ thread\ "
    | ^thread\ '[^'\n]*'\ panicked\ at
    | ^Segmentation\ fault
    """
)
"""Stack traces and lines that begin with an error keyword, as programs print them; prose about errors has none."""

Keywords: TypeAlias = Annotated[
    Items[Text],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "array", "items": FILLED_TEXT}, FILLED_TEXT]}),
]


class Heuristic(Evaluator):
    """Words that the answer must and must not hold."""

    kind = "heuristic"
    short_key = "hits"

    hits: Keywords = Field(default=(), description="words that the answer must hold: a list, or one word")
    misses: Keywords = Field(default=(), description="words that the answer must not hold: a list, or one word")

    @model_validator(mode="after")
    def _needs_keywords(self) -> Self:
        if not self.hits and not self.misses:
            raise ValueError("heuristic needs keywords, or every answer would pass: hits, misses or both")
        return self

    async def evaluate(self, context: Context) -> Score:
        """Case does not matter, parts of words count. Source: the requirement "Heuristic Grading"."""
        answer = context.candidate_answer
        hits, misses = (
            tuple(keyword for keyword in keywords if contains_folded(answer, keyword))
            for keywords in (self.hits, self.misses)
        )
        hit_ratio = len(hits) / len(self.hits) if self.hits else 1.0
        miss_ratio = len(misses) / len(self.misses) if self.misses else 0.0
        sign = error_sign(answer)
        lacking = [keyword for keyword in self.hits if keyword not in hits]
        said = (
            f"{len(hits)}/{len(self.hits)} expected keywords found" if self.hits else "",
            "missing: " + ", ".join(lacking) if lacking else "",
            f"{len(misses)}/{len(self.misses)} forbidden keywords found" if self.misses else "",
            f"the answer looks like an error: {sign}" if sign is not None else "",
        )
        missing = (f"missing: {keyword}{other_form(keyword, answer, contains_folded)}" for keyword in lacking)
        return Score(
            hit_ratio * (1 - miss_ratio),
            hits=hits,
            misses=(*misses, *missing),
            reasoning="; ".join(filter(None, said)),
            details={"hit_ratio": hit_ratio, "miss_ratio": miss_ratio, "has_error": sign is not None},
        )


def error_sign(answer: str) -> str | None:
    """Return the first line that looks like an error of a program, or None."""
    found = ERROR_SIGN.search(answer)
    return found and beginning(answer[found.start() :].lstrip().partition("\n")[0].rstrip(), 100)


# Searches texts for the patterns of authors: `re` checks them, and the package `regex`, which can be stopped, searches.

SECONDS: Final = 2.0
AT_ONCE: Final = 0.02
"""How long a search may block the other cases, in seconds. A longer search continues in a thread, up to `SECONDS`."""

_BRACE: Final = re.compile(r"(\\N\{[^}]*\}|\\.|\{\d*,?\d*\})|(\{)", re.DOTALL)
"""Its second group: a brace that `re` takes literally. `regex` would match `{e<=1}` approximately."""


def check_pattern(pattern: str) -> str | None:
    """Return the fault of a pattern; None if it is valid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
        _compiled(pattern, "")
    except Exception as error:  # noqa: BLE001 - the package has an error class of its own, and raises others as well
        return f"{pattern!r} is no regular expression: {error}"
    return None


async def search(pattern: str, flags: str, text: str, timeout_seconds: float | None) -> str | None:
    """Return the first match in a text; None: there is none. Raises `TimeoutError` with a message."""
    with suppress(TimeoutError):
        return search_now(pattern, text, flags, AT_ONCE)
    limit = SECONDS if timeout_seconds is None else min(SECONDS, timeout_seconds)
    return await asyncio.to_thread(search_now, pattern, text, flags, limit)


def search_now(pattern: str, text: str, flags: str = "", seconds: float = 0.25) -> str | None:
    """Return the first match, for checks that search many texts; blocks. Raises `TimeoutError` with a message."""
    try:
        found = _compiled(pattern, flags).search(text, timeout=seconds, concurrent=True)
    except TimeoutError:
        message = f"the pattern {pattern!r} was given up after {seconds:g} s: it tries too many ways to match"
        raise TimeoutError(f"{message}. Nested repetitions such as (a+)+ do that") from None
    return None if found is None else str(found[0])


@lru_cache(maxsize=512)
def _compiled(pattern: str, flags: str) -> Any:
    import regex  # noqa: PLC0415 - only for checks with patterns

    letters = sum(int(getattr(regex, letter.upper())) for letter in set(flags))
    return regex.compile(_BRACE.sub(lambda found: found[1] or r"\{", pattern), letters)


# `regex`: the answer matches a pattern.

LETTERS: Final = "aimsx"
_FLAGS: Final = {"type": "string", "pattern": f"^[{LETTERS}]+$"}


def _letters(value: str) -> str:
    if not value or not set(value) <= set(LETTERS):
        raise expected("letters of i (ignore case), m (multiline), s (dot matches all), a (ASCII), x (verbose)")
    return value


def _checked_pattern(value: str) -> str:
    if fault := check_pattern(value):
        raise ValueError(fault)
    return value


class Regex(Evaluator):
    r"""The answer matches a pattern of Python's `re`, anywhere.

    The package `regex` searches, because it can be stopped. It differs from `re` in details: `\w` matches combining
    marks, and does not match `²` or `½`; `\s` does not match the control characters 1C to 1F; `\B` matches an empty
    answer; a reference such as `\1` to a group that is repeated may find less; with `flags: i`, `I` does not match
    `İ`, and `i` does not match the dotless i.
    """

    kind = "regex"
    is_graded = False
    examples = ({"answer": "Order no. 1001 was sent.", "assert": [{"regex": "order no\\. \\d{4}", "flags": "i"}]},)

    value: Annotated[Text, AfterValidator(_checked_pattern)] = Field(
        description="the pattern, as for Python's `re.search`", examples=["\\d+ days"]
    )
    flags: Annotated[str, AfterValidator(_letters), WithJsonSchema(_FLAGS)] | None = Field(
        default=None, description="letters: `i` ignores case, and `m`, `s`, `a`, `x` as in `re`", examples=["i"]
    )

    async def evaluate(self, context: Context) -> Score:
        try:
            found = await search(self.value, self.flags or "", context.candidate_answer, context.timeout_seconds)
        except TimeoutError as error:
            raise EvaluatorError(str(error), kind="timeout") from None
        pattern = f"/{self.value}/{self.flags or ''}"
        return verdict(found is not None, f"matches {pattern}: {shown(found or '')}", f"does not match {pattern}")
