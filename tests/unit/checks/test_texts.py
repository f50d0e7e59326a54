"""Checks of texts, at their edges."""

import asyncio
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_agentv
from pytest_agentv.evaluators.text import check_pattern, search, search_now
from pytest_agentv.model.secrets import Masker, masking


@pytest.mark.parametrize(
    ("check", "answer", "score", "hits", "misses"),
    [
        ({"word": "30"}, "130 euros", 0, (), ('lacks "30"',)),
        ({"word": "30 days"}, "within 30\n Days.", 1, ('contains "30 days"',), ()),
        ({"words": ["30", "000"]}, "-30.5, 30'000", 1, ('contains "30"', 'contains "000"'), ()),
        ({"words": ["120", "tent"]}, "120元, tent_size, tents", 0, (), ('lacks "120"', 'lacks "tent"')),
        ({"word": "naïve"}, "a NAÏVE plan", 1, ('contains "naïve"',), ()),
        ({"icontains": "STRASSE"}, "straße", 1, ('contains "STRASSE"',), ()),
        ({"equals": 30}, " 30.0 ", 1, ("is 30",), ()),
        ({"equals": {"a": [1]}}, 'It is ```json\n{"a": [1.0]}\n```', 1, ('is {"a":[1]}',), ()),
        ({"equals": {"a": 2}}, 'So: {"a": 1} {"a": 2}', 0, (), ('is {"a":1}, not {"a":2}',)),
        ({"not-equals": "30", "path": "n"}, '{"n": 30}', 0, (), ('is "30"',)),
        (
            {"field": {"path": "n", "equals": "30.0"}},
            '{"n": 30}',
            0,
            (),
            ('is 30, not "30.0"',),
        ),
        ({"equals": "30.0"}, "30", 0, (), ('is "30", not "30.0"',)),
        ({"equals": "9" * 400, "path": "n"}, f'{{"n": {"9" * 400}}}', 1, (), ()),
        ({"equals": 30, "path": "n"}, '{"n": "30"}', 0, (), ('is "30", not 30',)),
        ({"length": {"min_chars": 3, "max_chars": 4}}, " abc ", 1, ("has 3 characters (at least 3)",), ()),
        ({"length": {"max_chars": 1}}, "a", 1, ("has 1 character (at most 1)",), ()),
        ({"length": {"max_lines": 1}}, "a\fb\u2028c", 0, (), ("has 3 lines (at most 1)",)),
        ({"regex": "^b", "flags": "im"}, "a\nB", 1, ('matches /^b/im: "B"',), ()),
        ({"regex": "x{e<=1}"}, "y", 0, (), ("does not match /x{e<=1}/",)),
    ],
)
def test_what_a_check_finds(bench, check, answer, score, hits, misses):
    result = bench.judged(check, answer)
    assert (result.score, result.error) == (score, None)
    assert result.hits[: len(hits)] == hits
    assert result.misses == misses


NFC, NFD = "caf\u00e9", "cafe\u0301"
FORM = " (it only looks alike: the Unicode form differs)"


@pytest.mark.parametrize(
    ("check", "answer", "miss"),
    [
        ({"contains": NFD}, f"a {NFC}", f'lacks "{NFD}"{FORM}'),
        ({"contains": "30 days"}, "within 30\u202fdays", f'lacks "30 days"{FORM}'),
        ({"contains": "Café"}, f"a {NFD}", 'lacks "Café"'),
        ({"icontains": "CAFÉ"}, f"a {NFD}", f'lacks "CAFÉ"{FORM}'),
        ({"contains-any": ["b", NFC]}, NFD, 'lacks "b"'),
        ({"word": NFC}, f"the {NFD}s", f'lacks "{NFC}"'),
        ({"starts-with": NFC}, f"{NFD}!", f'starts with "cafe", not "{NFC}"{FORM}'),
        ({"ends-with": NFC}, f"a {NFD}", f'ends with "afe\u0301", not "{NFC}"{FORM}'),
    ],
)
def test_a_miss_says_that_only_the_unicode_form_differs(bench, check, answer, miss):
    result = bench.judged(check, answer)
    assert result.score < 1
    assert result.misses[0] == miss


def test_a_bad_pattern_is_given_up_and_does_not_hold_up_the_loop(bench, monkeypatch):
    monkeypatch.setattr("pytest_agentv.evaluators.text.SECONDS", 0.3)
    pattern, answer = "(a|a)+$", "a" * 40 + "b"
    result = bench.judged({"regex": pattern}, answer)
    assert (result.error_kind, result.score) == ("timeout", 0.0)
    assert result.error is not None
    assert "was given up after 0.3 s: it tries too many ways to match" in result.error

    async def ticks() -> int:
        count = 0
        task = asyncio.create_task(search(pattern, "", answer, None))
        while not task.done():
            await asyncio.sleep(0.005)
            count += 1
        assert isinstance(task.exception(), TimeoutError)
        return count

    assert asyncio.run(ticks()) > 5


def test_a_search_on_the_loop_is_short():
    started = time.process_time()
    with pytest.raises(TimeoutError, match="given up after"):
        search_now("(a|a)+$", "a" * 40 + "b", seconds=0.01)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("a+", None),
        ("[[a]", "is no clear regular expression: Possible nested set at position 1"),
        ("*", "is no regular expression: nothing to repeat at position 0"),
        ("(?<year>x)", "is no regular expression: unknown extension ?<y at position 1"),
        ("\\p{L}", "is no regular expression: bad escape \\p at position 0"),
        ("\\N{LATIN SMALL LETTER A}{2}", None),
    ],
)
def test_patterns_are_those_of_re(pattern, fault):
    found = check_pattern(pattern)
    assert found is None if fault is None else found is not None and fault in found


@given(st.text(alphabet="ab {}1,[]()|\\.", max_size=12), st.text(alphabet="ab {}1,", max_size=12))
def test_a_pattern_that_re_takes_finds_what_re_finds(pattern, text):
    if check_pattern(pattern) is None:
        assert (search_now(pattern, text) is not None) is (re.search(pattern, text) is not None)


@pytest.mark.parametrize("edge", ["starts", "ends"])
def test_a_shown_edge_cuts_no_secret_in_half(bench, edge):
    key = "sk-Zq9Secret0123456789abcdefXY"

    with masking(Masker([key])):
        judged = bench.judged({f"{edge}-with": "Have a nice day and bye, you."}, f"The key is {key}")

    assert judged.misses[0].startswith(f'{edge} with "The key is ***", not')


def test_no_group_of_ours_is_repeated_possessively():
    """Before 3.11.5, Python continues behind the characters of a repetition that failed (gh-106052)."""
    repeated = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")
    files = Path(pytest_agentv.__file__).parent.rglob("*.py")
    found = [f"{path.name}: {match[0]}" for path in files for match in repeated.finditer(path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize("same", range(1, 10))
def test_a_similarity_that_equals_the_threshold_reaches_it(bench, same):
    answer = "a" * same + "b" * (10 - same)
    assert bench.judged({"levenshtein": "a" * 10, "threshold": same / 10}, answer).score == 1.0


def test_a_similarity_below_the_threshold_is_never_shown_as_the_threshold(bench):
    found = bench.judged({"levenshtein": "a" * 10_000, "threshold": 0.9}, "a" * 8996 + "b" * 1004)
    assert found.misses == ("similarity 0.8996 < 0.9",)
