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
        ({"word": "5"}, "1.5 days, 5.2 or 5,000", 0, (), ('lacks "5"',)),
        ({"word": "500 euros"}, "1,500 euros", 0, (), ('lacks "500 euros"',)),
        ({"word": "1,500.5"}, "it is 1,500.5.", 1, ('contains "1,500.5"',), ()),
        ({"words": ["30", "000"]}, "30'000, 30’000.5", 0, (), ('lacks "30"', 'lacks "000"')),
        ({"not-word": "30"}, "30\xa0000, 30\u202f000,5", 1, (), ()),
        ({"words": ["30'000", "5 000"]}, "30'000 of 5\xa0000", 1, ('contains "30\'000"', 'contains "5 000"'), ()),
        ({"words": ["30", "1000"]}, "30'0001, '30', 1000's", 1, ('contains "30"', 'contains "1000"'), ()),
        ({"word": "30"}, "30,50 or 40", 1, ('contains "30"',), ()),
        ({"word": "5"}, "on 5.11.2026", 1, ('contains "5"',), ()),
        ({"word": "5"}, "4,5,6", 1, ('contains "5"',), ()),
        ({"words": ["1", "2.3"]}, "release 1.2.3", 1, ('contains "1"', 'contains "2.3"'), ()),
        ({"words": ["30", "1,000"]}, "30.00 of 1,000.0", 1, ('contains "30"', 'contains "1,000"'), ()),
        ({"words": ["1", "10"]}, "1.5kg, 10.000 €", 0, (), ('lacks "1"', 'lacks "10"')),
        (
            {"words": ["120", "テント", "元"]},
            "テントは120元",
            1,
            ('contains "120"', 'contains "テント"', 'contains "元"'),
            (),
        ),
        ({"words": ["120", "텐트", "120원"]}, "텐트는 120원", 1, ('contains "120"', 'contains "텐트"'), ()),
        ({"words": ["12", "ten"]}, "价格120元tent", 0, (), ('lacks "12"', 'lacks "ten"')),
        ({"words": ["1", "1.5"]}, "价格1.5元", 0.5, ('contains "1.5"',), ('lacks "1"',)),
        ({"words": ["tent", "30", "a b"]}, "_tent_ for __30__ _a b_", 1, ('contains "tent"', 'contains "30"'), ()),
        ({"words": ["tent", "max"]}, "tent_size, x_tent, max__", 0.5, ('contains "max"',), ('lacks "tent"',)),
        ({"word": "30"}, "It is -30.", 0, (), ('lacks "30"',)),
        ({"word": "30"}, "(−30), x=-30.5", 0, (), ('lacks "30"',)),
        ({"words": ["-30", "−5"]}, "-30 and −5", 1, ('contains "-30"', 'contains "−5"'), ()),
        ({"word": "30"}, "- 30 euros", 1, ('contains "30"',), ()),
        ({"word": "30"}, "all:\n-30 euros", 1, ('contains "30"',), ()),
        ({"word": "30"}, "20-30, 20 -30", 1, ('contains "30"',), ()),
        ({"word": "30"}, "now -30 %", 1, ('contains "30"',), ()),
        ({"word": "naïve"}, "a NAÏVE plan", 1, ('contains "naïve"',), ()),
        ({"word": "cafe"}, "a cafe\u0301 here", 0, (), ('lacks "cafe"',)),
        ({"word": "हिन्द"}, "हिन्दी", 0, (), ('lacks "हिन्द"',)),
        ({"word": "न्दी"}, "हिन्दी", 0, (), ('lacks "न्दी"',)),
        ({"word": "tent"}, "the cafe\u0301tent", 0, (), ('lacks "tent"',)),
        ({"words": ["careful", "5"]}, "⚠️Careful: 5️⃣ days", 1, ('contains "careful"', 'contains "5"'), ()),
        ({"word": "हिन्दी"}, "हिन्दीय, हिन्दी!", 1, ('contains "हिन्दी"',), ()),
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
    normalized = []
    _normalized.cache_clear()

    def counting(form, text):
        normalized.append((form, len(text)))
        return unicodedata.normalize(form, text)

    monkeypatch.setattr("pytest_agentv.evaluators.text.normalize", counting)
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


@pytest.mark.parametrize(
    "text",
    [
        *("a **-30** b", "a `-30` b", 'a "-30" b', "a “-30” b", "a\n**-30**", "x = `-30`", "-30", "a \u201130"),
        *("a -$30 b", "a $-30 b", "a -€30 b", "a **-$30** b"),
        *('{"a":-30}', "[1,-30]", "|-30|", "<b>-30</b>"),
        *("30.000,00 Euro", "30.000.000", "1.030.000,5", "$.30", "a .30 b", "30 000 euros", "1 030 000", "30 050,5"),
        *("a US$-30 b", "a\nUS$-30", "a\n$-30", "a -US$30 b", "a -$ 30 b", "a -EUR 30 b"),
        *("30.8566,2.30", "2.3522,30.8566", "[0.5,30.5]", "[30.5,5]", "30.000,30.500", "[.30,.30]"),
        *("EUR12.30", "EUR30.000,00", "30 000km", "+30 000", "30 000 500", "30.000.000.000"),
        *("30 050 €", "30 050 euros", "$30 050."),
    ],
)
def test_a_word_is_not_found_in_another_number(text):
    assert not has_word("30", text.casefold())
    assert not has_word("$30", text.casefold())


@pytest.mark.parametrize(
    "text",
    [
        *("**20**-**30**", "20 €-30 €", "$20-$30", "20%-30%", "`20`-30", "a +/-30", "A-30", "(a)-30", "30-000"),
        *("a\n-30", "a **-30%**", "5.11.30", "1.2.30", "...30", "p.30", "2..30", "30.", "30,50", "30,000,0", "12:30"),
        *("30 500", "30, 000", "of 30 0", "30 days", "10 20 30"),
        *("1.5,30", "30,2.5", "$20-$30 US$", "20 US$-30 US$", "US$30", "v1.30.2"),
        *("30 034 56", "30 014", "30 001.txt", "30 000.txt", "30 010 2030", "+30 800 000 000", "30.168.100.200"),
    ],
)
def test_a_word_is_found_beside_marks_that_belong_to_no_number(text):
    assert has_word("30", text.casefold())


@pytest.mark.parametrize(
    ("word", "text"),
    [
        *(("$30 million", "It made -$30 million."), ("\u20ac5 off", "-\u20ac5 off"), ("US$30", "a -US$30")),
        *(("48", "at 48.8566,2.3522"), ("2", "at 48.8566,2.3522"), ("3522", "at 48.8566,2.3522"), ("5", "[0.5,1.5]")),
        *(("50", "It costs EUR12.50."), ("EUR12", "EUR12.50"), ("2", "1.000.000,2.000.000"), ("1", "1 000 500")),
    ],
)
def test_a_word_is_not_found_in_a_part_of_a_number(word, text):
    assert not has_word(word, text.casefold())


@pytest.mark.parametrize(
    "text",
    [
        *("001 002 003", "100 001 002", "001 002 100", "001,002,003", "001.002.003", "001\u202f002"),
        *("192.168.100.200", "192.168.100.200:80", "0 000", "030 123 000", "555 000 123", "555 000 1234"),
    ],
)
def test_each_group_of_ids_addresses_and_phone_numbers_is_found(text):
    assert [group for group in re.findall("[0-9]+", text) if not has_word(group, text)] == []


def test_numbers_of_a_long_answer_are_read_at_once():
    started = time.process_time()
    for piece in ("000 ", "1.000", "1,000", "1 000 ", "1", "*", " -$", "$ ", "a$", "\n*", " ***us$***", "1.5,"):
        assert not has_word("7", piece * (20_000 // len(piece)) + " 7x7")
        assert has_word("7", piece * (20_000 // len(piece)) + " x 7")
    assert time.process_time() - started < 5


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


@pytest.mark.parametrize(
    ("check", "told"),
    [
        ({"regex": "sk-Zq9[A-Za-z0-9]{20}"}, 'matches /sk-Zq9[A-Za-z0-9]{20}/: "***"'),
        ({"regex": "is.*"}, 'matches /is.*/: "***"'),
        ({"regex": "The k.."}, 'matches /The k../: "The key"'),
        ({"ends-with": "Have a nice day and bye, you."}, 'ends with "The key is ***", not'),
        ({"starts-with": "Have a nice day and bye, you."}, 'starts with "The key is ***", not'),
    ],
)
def test_no_piece_of_a_secret_is_shown(bench, check, told):
    key = "sk-Zq9Secret0123456789abcdefXY"

    with masking(Masker([key])):
        judged = bench.judged(check, f"The key is {key}")

    said = [*judged.hits, *judged.misses]
    assert told in said[0]
    assert "Secret" not in str(said)
