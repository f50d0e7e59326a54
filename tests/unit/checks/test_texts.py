"""Checks of texts, at their edges."""

import asyncio
import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.evaluators.patterns import check_pattern, search, search_now
from pytest_agentv.evaluators.text import _normalized, has_word
from pytest_agentv.model.secrets import Masker, masking


@pytest.mark.parametrize(
    ("check", "answer", "score", "hits", "misses"),
    [
        ({"contains": "30"}, "130 euros", 1, ('contains "30"',), ()),
        ({"word": "30"}, "130 euros", 0, (), ('lacks "30"',)),
        ({"word": "30 days"}, "within 30\n Days.", 1, ('contains "30 days"',), ()),
        ({"words": ["30", "000"]}, "-30.5, 30'000", 1, ('contains "30"', 'contains "000"'), ()),
        ({"words": ["1,500.5", "-30"]}, "it is 1,500.5 or -30.", 1, ('contains "1,500.5"', 'contains "-30"'), ()),
        ({"words": ["120", "tent"]}, "120元, tent_size, tents", 0, (), ('lacks "120"', 'lacks "tent"')),
        ({"word": "naïve"}, "a NAÏVE plan", 1, ('contains "naïve"',), ()),
        ({"words": ["careful", "5"]}, "⚠️Careful: 5️⃣ days", 1, ('contains "careful"', 'contains "5"'), ()),
        (
            {"words": ["a", "b", "c", "d"]},
            "a, ab, d!",
            0.5,
            ('contains "a"', 'contains "d"'),
            ('lacks "b"', 'lacks "c"'),
        ),
        ({"contains-all": ["a", "b"]}, "a", 0.5, ('contains "a"',), ('lacks "b"',)),
        ({"contains-any": ["a", "b"]}, "c", 0, (), ('lacks "a"', 'lacks "b"')),
        ({"icontains": "STRASSE"}, "straße", 1, ('contains "STRASSE"',), ()),
        ({"starts-with": "Yes"}, "No, never", 0, (), ('starts with "No,", not "Yes"',)),
        ({"ends-with": "bye"}, "so long", 0, (), ('ends with "ong", not "bye"',)),
        ({"equals": "yes"}, "no", 0, (), ('is "no", not "yes"',)),
        ({"equals": 30}, " 30.0 ", 1, ("is 30",), ()),
        ({"equals": True}, "1", 0, (), ("is 1, not true",)),
        ({"equals": {"a": [1]}}, 'It is ```json\n{"a": [1.0]}\n```', 1, ('is {"a":[1]}',), ()),
        ({"equals": {"a": 1}}, "nothing", 0, (), ('holds no JSON, and so is not {"a":1}',)),
        ({"equals": {"a": 2}}, 'So: {"a": 1} {"a": 2}', 0, (), ('is {"a":1}, not {"a":2}',)),
        ({"equals": "30", "path": "n"}, '{"n": 30}', 1, ('is "30"',), ()),
        ({"not-equals": "30", "path": "n"}, '{"n": 30}', 0, (), ('is "30"',)),
        ({"equals": " 120.5\n", "path": "n"}, '{"n": 120.50}', 1, ('is "120.5"',), ()),
        ({"equals": "120", "path": "n"}, '{"n": 1.2e2}', 1, ('is "120"',), ()),
        (
            {"equals": "120.50", "path": "n"},
            '{"n": 120.50}',
            0,
            (),
            ('is 120.5, not "120.50" (the same number, but its text is "120.5")',),
        ),
        (
            {"field": {"path": "n", "equals": "30.0"}},
            '{"n": 30}',
            0,
            (),
            ('is 30, not "30.0" (the same number, but its text is "30")',),
        ),
        ({"equals": "40", "path": "n"}, '{"n": 30}', 0, (), ('is 30, not "40"',)),
        ({"equals": "30.0", "path": "n"}, '{"n": "30"}', 0, (), ('is "30", not "30.0"',)),
        ({"equals": "30.0"}, "30", 0, (), ('is "30", not "30.0"',)),
        (
            {"equals": "True", "path": "n"},
            '{"n": true}',
            0,
            (),
            ('is true, not "True" (the same flag, but its text is "true")',),
        ),
        ({"equals": "true", "path": "n"}, '{"n": true}', 1, ('is "true"',), ()),
        ({"not-equals": "false", "path": "n"}, '{"n": false}', 0, (), ('is "false"',)),
        ({"equals": "1", "path": "n"}, '{"n": true}', 0, (), ('is true, not "1"',)),
        ({"equals": "null", "path": "n"}, '{"n": null}', 0, (), ('is null, not "null"',)),
        ({"equals": "9" * 400, "path": "n"}, f'{{"n": {"9" * 400}}}', 1, (), ()),
        ({"equals": "[1]", "path": "n"}, '{"n": [1]}', 0, (), ('is [1], not "[1]"',)),
        ({"field": {"path": "n", "equals": "30"}}, '{"n": 30}', 1, ('is "30"',), ()),
        ({"field": {"path": "n", "not-equals": "30"}}, '{"n": 30}', 0, (), ('is "30"',)),
        ({"not-field": {"path": "n", "equals": "30"}}, '{"n": 30}', 0, (), ('is "30"',)),
        ({"equals": 30, "path": "n"}, '{"n": "30"}', 0, (), ('is "30", not 30',)),
        ({"length": {"max_lines": 1}}, "a\n\nb", 0, (), ("has 3 lines (at most 1)",)),
        ({"length": {"min_chars": 3, "max_chars": 4}}, " abc ", 1, ("has 3 characters (at least 3)",), ()),
        ({"length": {"min_words": 2}}, "a", 0, (), ("has 1 word (at least 2)",)),
        ({"length": {"max_chars": 1}}, "a", 1, ("has 1 character (at most 1)",), ()),
        ({"length": {"max_lines": 1, "max_chars": 1}}, "\n a \n\n", 1, ("has 1 character (at most 1)",), ()),
        ({"length": {"max_lines": 1}}, "a\fb\u2028c", 0, (), ("has 3 lines (at most 1)",)),
        ({"length": {"max_lines": 1}}, "a b", 1, ("has 1 line (at most 1)",), ()),
        ({"regex": "^b", "flags": "im"}, "a\nB", 1, ('matches /^b/im: "B"',), ()),
        ({"regex": "^ b", "flags": "aimsx"}, "a\nB", 1, ('matches /^ b/aimsx: "B"',), ()),
        ({"regex": "x{e<=1}"}, "y", 0, (), ("does not match /x{e<=1}/",)),
    ],
)
def test_what_a_check_finds(bench, check, answer, score, hits, misses):
    result = bench.judged(check, answer)
    assert (result.score, result.error) == (score, None)
    assert result.hits[: len(hits)] == hits
    assert result.misses == misses


NFC, NFD = "caf\u00e9", "cafe\u0301"
AS_NFC, AS_NFKC = (f" (only the Unicode form differs: they match as {form})" for form in ("NFC", "NFKC"))


@pytest.mark.parametrize(
    ("check", "answer", "miss"),
    [
        ({"contains": NFC}, f"a {NFD}", f'lacks "{NFC}"{AS_NFC}'),
        ({"contains": NFD}, f"a {NFC}", f'lacks "{NFD}"{AS_NFC}'),
        ({"contains": "30 days"}, "within 30\u202fdays", f'lacks "30 days"{AS_NFKC}'),
        ({"contains": "Café"}, f"a {NFD}", 'lacks "Café"'),
        ({"icontains": "CAFÉ"}, f"a {NFD}", f'lacks "CAFÉ"{AS_NFC}'),
        ({"contains-all": ["a", NFC]}, f"a {NFD}", f'lacks "{NFC}"{AS_NFC}'),
        ({"contains-any": ["b", NFC]}, NFD, 'lacks "b"'),
        ({"icontains-all": [NFC]}, NFD, f'lacks "{NFC}"{AS_NFC}'),
        ({"icontains-any": [NFC]}, NFD, f'lacks "{NFC}"{AS_NFC}'),
        ({"word": NFC}, f"a {NFD}!", f'lacks "{NFC}"{AS_NFC}'),
        ({"word": NFC}, f"the {NFD}s", f'lacks "{NFC}"'),
        ({"words": [NFC]}, NFD, f'lacks "{NFC}"{AS_NFC}'),
        ({"equals": NFC}, NFD, f'is "{NFD}", not "{NFC}"{AS_NFC}'),
        ({"starts-with": NFC}, f"{NFD}!", f'starts with "cafe", not "{NFC}"{AS_NFC}'),
        ({"ends-with": NFC}, f"a {NFD}", f'ends with "afe\u0301", not "{NFC}"{AS_NFC}'),
        ({"heuristic": [NFC]}, NFD, f"missing: {NFC}{AS_NFC}"),
    ],
)
def test_a_miss_says_that_only_the_unicode_form_differs(bench, check, answer, miss):
    result = bench.judged(check, answer)
    assert result.score < 1
    assert result.misses[0] == miss


@pytest.mark.parametrize("kind", ["contains-all", "contains-any", "icontains-all", "words", "heuristic"])
def test_many_misses_in_a_long_answer_bring_it_into_each_unicode_form_once(bench, monkeypatch, kind):
    normalized, normalize = [], unicodedata.normalize
    _normalized.cache_clear()

    def counting(form, text):
        normalized.append((form, len(text)))
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counting)
    answer = f"{kind} {NFD} " * 1000
    assert bench.judged({kind: [f"caf{number}\u00e9" for number in range(20)]}, answer).score == 0
    assert [form for form, size in normalized if size >= len(answer)] == ["NFC", "NFKC"]


@pytest.mark.parametrize("kind", ["starts-with", "ends-with"])
def test_an_end_that_every_answer_has_is_a_fault(bench, kind):
    for blank in ("\ufeff", " \ufeff"):
        _, faults = bench.load({kind: blank})
        assert len(faults) == 1
        assert "more than a byte order mark, or every answer would pass" in faults[0]
    assert bench.judged({kind: "\u200b"}, "x").score == 0


def test_a_long_text_is_cut_in_findings(bench):
    result = bench.judged({"equals": "x"}, "y" * 500)
    assert result.misses == (f'is "{"y" * 80}…", not "x"',)


def test_a_bad_pattern_is_given_up_and_does_not_hold_up_the_loop(bench, monkeypatch):
    monkeypatch.setattr("pytest_agentv.evaluators.patterns.SECONDS", 0.3)
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


def test_an_error_is_no_pass_when_it_is_negated(bench, monkeypatch):
    monkeypatch.setattr("pytest_agentv.evaluators.patterns.SECONDS", 0.05)
    result = bench.judged({"not-regex": "(a|a)+$"}, "a" * 40 + "b")
    assert (result.score, result.error_kind) == (0.0, "timeout")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        *((r"^(.+)+\1$", "bbabbab"), (r"^(?P<n>.{1,})+?(?P=n)$", "bbabbab"), (r"^(?:(.+)|b)*(?(1)\1|x)$", "bbabbab")),
        *((r"^([ab]*[ab]*)(a*([ab]?a)*)*\1$", "baaaaba"), (r"^(a?+)b++[]*+]*+\+*\1$", "abb*++a")),
    ],
)
def test_a_reference_finds_what_it_finds_in_python(pattern, text):
    """The package `regex` alone tries only one text of a group at each place."""
    assert re.search(pattern, text)
    assert search_now(pattern, text)


def test_a_search_on_the_loop_is_short(monkeypatch):
    monkeypatch.setattr("pytest_agentv.evaluators.patterns.SECONDS_HELD_UP", 0.01)
    started = time.process_time()
    with pytest.raises(TimeoutError, match="given up after"):
        search_now("(a|a)+$", "a" * 40 + "b")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("a+", None),
        ("[[a]", "is no clear regular expression: Possible nested set at position 1"),
        ("*", "is no regular expression: nothing to repeat at position 0"),
        ("(?<year>x)", "unknown extension ?<y at position 1 (did you mean '(?P<year>…)'?)"),
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
        assert search_now(pattern, text) is (re.search(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "flags", "is_found"),
    [
        *((r"^\w$", "\u0301", "", True), (r"\w", "²½", "", False), (r"\s", "\x1c\x1d\x1e\x1f", "", False)),
        *((r"\B", "", "", True), ("I", "İ", "i", False), ("i", "ı", "i", False)),
    ],
)
def test_a_pattern_finds_something_else_than_re_where_the_docs_say_so(pattern, text, flags, is_found):
    found = asyncio.run(search(pattern, flags, text, None))
    assert (found is not None) is is_found


@given(st.text(alphabet="ab ß", min_size=1).filter(str.strip))
def test_a_word_is_found_in_itself(text):
    assert has_word(text, f"({text})".casefold())


def test_names_are_derived_and_unique_and_cut(bench):
    found, _ = bench.load(
        {"contains": "30 days"},
        {"contains": "30 days"},
        {"contains": "x", "name": "contains: 30 days (3)"},
        {"contains": "30   days"},
        {"contains": "y" * 100},
        {"contains-all": ["a", "b"], "path": "x.y"},
        {"is-xml": True},
        {"field": {"path": "a", "not-contains": "b"}},
        {"type": "latency", "threshold": 5},
    )
    assert [each.label for each in found] == [
        "contains: 30 days",
        "contains: 30 days (2)",
        "contains: 30 days (3)",
        "contains: 30 days (4)",
        f"contains: {'y' * 60}…",
        "contains-all: a, b (x.y)",
        "is-xml",
        "field: not-contains: b (a)",
        "latency",
    ]
    assert [each.name for each in found if each.name] == ["contains: 30 days (3)"]


def test_a_derived_name_shows_no_secret(bench):
    evaluator = bench.one({"contains": "sk-1234567890abcdef"})
    with masking(Masker(["sk-1234567890abcdef"])):
        assert evaluator.label == "contains: ***"


def test_the_beginning_of_an_answer_shows_no_half_of_a_secret(bench):
    with masking(Masker(["sk-1234567890abcdef"])):
        result = bench.judged({"starts-with": "The key is here"}, "The key sk-1234567890abcdef is it.")
    assert result.misses == ('starts with "The key *** is ", not "The key is here"',)


def test_a_derived_name_is_no_part_of_the_hash(bench):
    assert bench.one({"contains": "a"}).to_plain() == {"kind": "contains", "value": "a"}


@pytest.mark.parametrize("edge", ["starts", "ends"])
def test_a_shown_edge_cuts_no_secret_in_half(bench, edge):
    key = "sk-Zq9Secret0123456789abcdefXY"

    with masking(Masker([key])):
        judged = bench.judged({f"{edge}-with": "Have a nice day and bye, you."}, f"The key is {key}")

    assert judged.misses[0].startswith(f'{edge} with "The key is ***", not')
