r"""Patterns of JSON Schemas, whose language is JavaScript.

The expected values are those of Node.js 20: `new RegExp(pattern, "u").test(text)`, or without "u" if that is an error.
"""

import json
import warnings

import pytest

from pytest_agentv.evaluators.patterns import of_schema, search_now


@pytest.mark.parametrize(
    ("pattern", "texts", "expected"),
    [
        # Classes
        ("^[^]$", ("a", "\n", "\0", "😀", ""), "11110"),
        *(("[]", ("", "]", "a"), "000"), ("a|[]*b", ("b", "]b", "c"), "110"), ("^[]a]$", ("]", "a", "a]"), "000")),
        *(("[[a]b]", ("[b]", "ab]", "b"), "110"), ("[a&&b]", ("&", "&&", "c"), "110"), ("[a-c-e]", "-de", "101")),
        *(("[--0]", ".a", "10"), ("[a-]", "-b", "10"), (r"[\b]", "\bb", "10"), ("[\\]]", "]\\", "10")),
        *((r"[\w-.]", "-.!", "110"), (r"[+-\d]", "+-5,", "1110"), ("[😀-😂]", "😁\ud83d", "10"), ("]", "]a", "10")),
        # Characters
        *((r"^\cJ$", "\nJ", "10"), (r"[\cj]", "\nj", "10"), (r"\0", "\x000", "10"), (r"^\012$", "\n", "1")),
        *((r"^\u{1F600}$", "😀u", "10"), (r"^\ud83d\ude00$", "😀", "1"), (r"^\u0061\x62$", ("ab",), "1")),
        *((r"^\/\-\_\é$", ("/-_é",), "1"), ("^.$", "\n\r\u2028😀\x85", "00011"), ("#a b", ("#a b", "b"), "10")),
        # Sets
        *((r"^\d$", "5٣", "10"), (r"^\W$", "éa_", "100"), (r"^[^\W\d]$", "a5é", "100"), (r"\bx\b", ("éx", "ax"), "10")),
        *(
            (r"^\B$", ("", "a"), "10"),
            (r"^\p{L}$", "éa5", "110"),
            (r"^\P{L}$", "é5", "01"),
            (r"^[\p{Lu}_]$", "É_é", "110"),
        ),
        *((r"\p{Script=Greek}", "αa", "10"), (r"^\p{gc=Nd}$", "٣a", "10"), (r"^\p{IDC}$", "aﬀ5-", "1110")),
        # Places
        *(("^a$", ("a", "a\n", "b\na"), "100"), ("(^a|b$)", ("b\n", "cb"), "01")),
        *(("(?<=a+)b", ("aab", "b"), "10"), ("(?<!a|c)b", ("ab", "xb"), "01"), ("^(?=a)*b", ("b", "a"), "10")),
        # Repetitions
        *(
            ("^a{,2}$", ("a{,2}", "aa"), "10"),
            ("^{}$", ("{}",), "1"),
            ("x{a}", ("x{a}",), "1"),
            ("^a{2}?$", ("aa",), "1"),
        ),
    ],
)
def test_a_pattern_means_what_it_means_in_javascript(pattern, texts, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "".join(str(int(search_now(pattern, text, is_of_schema=True))) for text in texts) == expected


@pytest.mark.parametrize(
    ("pattern", "texts", "expected"),
    [
        (r"^(?<year>\d)-\k<year>$", ("1-1", "1-2"), "10"),
        (r"^\k<$b>(?<$b>a)\1$", ("aa", "aaa"), "10"),
        # A group without text is empty.
        *((r"^(a)?b\1$", ("b", "aba", "ab"), "110"), (r"^\1(a)$", ("a", "aa"), "10"), (r"^(a\1)+$", ("aa",), "1")),
        *((r"(a)|\1b", "b", "1"), (r"^(?!(a)b)\1a", ("ac", "ab"), "10")),
        # It is so again when a repetition around it begins again.
        (r"^(?:(a)|b)*\1$", ("ab", "aba", "abaa"), "101"),
        (r"^(?:(a)|(b))*\1\2c$", ("abc", "abbc", "abac"), "010"),
        (r"""^(?:(['"])x\1,?)+$""", ("'x',\"x\"", "'x\""), "10"),
        # Each way to repeat counts, because it leaves another text.
        *((pattern, ("bbabbab",), "1") for pattern in (r"^(.+)+\1$", r"^(.{1,}?)+?\1$", r"^(.*.)*\1$")),
        # A lookbehind is read from the right.
        *(
            (r"(?<=\1(a))b", ("aab", "ab"), "10"),
            (r"^(?<=(a)\1)|b", ("b",), "1"),
            (r"(?<=^(?:(a)|b)+)\1$", ("ba", "ab"), "10"),
        ),
    ],
)
def test_a_reference_finds_what_javascript_remembers(pattern, texts, expected):
    assert "".join(str(int(search_now(pattern, text, is_of_schema=True))) for text in texts) == expected


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        (r"a\Z", r"'\\Z' is no escape (did you mean '$'?) at position 1"),
        (r"\Aa", r"'\\A' is no escape (did you mean '^'?) at position 0"),
        (r"[\e]", r"'\\e' is no escape at position 1"),
        (r"\c1", r"'\\c' is no escape at position 0"),
        *((rf"{part}", "there is nothing to repeat at position") for part in ("a++", "a**", "{1}", "a{2}{3}", "*")),
        *(("^*", "'^' cannot be repeated at position 1"), ("(?<=a)+", "a lookbehind cannot be repeated at position 6")),
        *((r"\1", "there is no group 1 at position 0"), (r"(?<n>a)\k<m>", "there is no group 'm' at position 7")),
        *(
            ("(?<n>a)(?<n>b)", "'n' is the name of two groups at position 7"),
            ("(?<1>a)", "'1' is no name of a group at"),
        ),
        *(("(a", "')' is missing for the group at position 0"), ("a)", "')' has no '(' at position 1")),
        *(("[a", "']' is missing for the class at position 0"), ("a\\", "a backslash at the end at position 1")),
        *(
            ("[z-a]", "the ends of a range are out of order at position 2"),
            ("a{2,1}", "the numbers of '{2,1}' are out"),
        ),
        *(
            (r"\p{Greek}", "unknown property 'Greek' at position 0"),
            (r"\u{110000}", r"'\\u{110000}' is no character at"),
        ),
        (r"\p{L}\-", r"'\\p{L}' needs the flag u, with which '\\-' at position 5 is an error"),
    ],
)
def test_a_pattern_that_javascript_refuses_is_an_error(bench, pattern, fault):
    _, faults = bench.load({"is-json": {"patternProperties": {pattern: True}}})
    assert len(faults) == 1
    assert (
        f"is no JSON Schema: patternProperties: {pattern!r} is no regular expression of JavaScript: {fault}"
        in faults[0]
    )


@pytest.mark.parametrize("pattern", [r"(a*)*\1", "a{99999999999}", r"\p{Script=Foo}"])
def test_a_pattern_that_cannot_be_judged_is_an_error(bench, pattern):
    _, faults = bench.load({"is-json": {"pattern": pattern}})
    assert len(faults) == 1
    assert f"is no JSON Schema: pattern: {pattern!r} is not supported: " in faults[0]


@pytest.mark.parametrize("draft", ["draft-04", "draft-07"])
def test_a_name_that_is_no_pattern_gives_no_verdict(bench, draft):
    schema = {
        "$schema": f"http://json-schema.org/{draft}/schema#",
        "not": {"patternProperties": {r"\Z": {"type": "null"}}},
    }
    checks, faults = bench.load({"is-json": schema})
    error = faults[0] if faults else bench.judged({"is-json": schema}, '{"Z": 1}').error
    assert r"'\\Z' is no regular expression of JavaScript" in error, checks


@pytest.mark.parametrize(
    ("pattern", "texts", "expected"),
    [
        *(
            ("(?i)^é$", ("É", "é\n"), "11"),
            ("(?s:.)", "\n", "1"),
            (r"^(?P<n>\d)\Z", "٣", "1"),
            (r"(?>a+)b", ("aab",), "1"),
        ),
        (r"\(?i:$", ("(i:", "i:", "i:\n"), "110"),  # no flag
        (r"^[(?i)]$", "?a", "10"),
    ],
)
def test_a_group_that_only_python_has_tells_that_its_language_is_meant(pattern, texts, expected):
    assert "".join(str(int(search_now(pattern, text, is_of_schema=True))) for text in texts) == expected


def test_a_group_that_no_language_has_is_an_error():
    with pytest.raises(ValueError, match="unknown extension"):
        of_schema("(?|a)")


@pytest.mark.parametrize(
    ("text", "is_pattern"),
    [(r"\cJ", True), ("(?<n>a)", True), ("[^]", True), (r"\Z", False), ("a++", False), ("(", False)],
)
def test_the_format_regex_is_a_pattern_of_javascript(bench, text, is_pattern):
    result = bench.judged({"is-json": {"format": "regex"}}, json.dumps(text))
    assert (result.score, result.error) == (float(is_pattern), None)
