"""Which JSON in a text is a value, and which is a part of one that is cut or broken."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from thorough import tries

from pytest_agentv.evaluators.answer_data import parse_answer
from pytest_agentv.evaluators.json_text import outer_objects, outer_values
from pytest_agentv.evaluators.judge_reply import JudgeQuestion, has_score, own_object
from pytest_agentv.model.base import ABSENT

PART = {"score": 1}
TEXTS = st.lists(
    st.sampled_from(
        [
            *(
                "x",
                "é",
                "it's",
                "a: b",
                "a {b} c",
                'a "q" b',
                "[1]",
                "line\nbreak",
                "//",
                "\\",
                '\\"',
                "```",
                "},",
                "}, ",
            ),
            *(
                "{",
                "}",
                "[",
                "]",
                "}}",
                "] }",
                '{"k":',
                '"}',
                '"]',
                '{"a": "',
                '5" 3}',
                '{"score": 2}',
                "```json\n{}\n```",
            ),
        ]
    ),
    max_size=3,
).map("".join)
LEAVES = TEXTS | st.sampled_from([1, 2.5, None, True, -3])
DATA = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)
BEFORE = st.sampled_from(
    [
        *(
            "",
            "Here: ",
            "See [1]. ",
            "Use `{x}` and {y}:\n",
            "```json\n",
            "Result (a [link](http://x)):\n",
            "- [x] done\n- ",
        ),
        *("f(){ return 1; }\n", 'She said "hi": ', "{{ var }} ", "the set {1, 2} is ", "it's "),
        '```python\nx = {"a": [1]}\n```\n',
        '```js\nf({a: "x"})\n```\nThen\n```json\n',
    ]
)
AFTER = st.sampled_from(
    ["", " done.", "\n```", "...", ' "', ' He said "x".', "\n\nIt is {all}.", "\n```\nThat's it.", ";"]
)


@st.composite
def around(draw: st.DrawFn, data: Any) -> dict[str, Any]:
    """Return an object that has some data amid other data."""
    names = draw(st.lists(st.sampled_from(["a", "b", "c{", "d}", 'e"', "f]"]), min_size=1, max_size=4, unique=True))
    place = draw(st.integers(0, len(names) - 1))
    return {name: data if index == place else draw(DATA) for index, name in enumerate(names)}


@st.composite
def holders(draw: st.DrawFn) -> Any:
    """Return data that has the part in it, some levels deep."""
    data: Any = PART
    for is_list in draw(st.lists(st.booleans(), max_size=2)):
        data = [*draw(st.lists(DATA, max_size=2)), data, *draw(st.lists(DATA, max_size=2))] if is_list else data
        data = draw(around(data))
    data = data if data is not PART else draw(around(data))
    return [data, *draw(st.lists(DATA, max_size=2))] if draw(st.booleans()) else data


def places(text: str, *, in_texts: bool, marks: str = "") -> list[int]:
    """Return the places of some JSON that are in texts, or those of marks that are not."""
    found, quoted, escaped = [], False, False
    for place, character in enumerate(text):
        was_quoted = quoted
        if character == '"' and not escaped:
            quoted = not quoted
        escaped = quoted and character == "\\" and not escaped
        if (was_quoted and not escaped) if in_texts else (not quoted and not was_quoted and character in marks):
            found.append(place)
    return found


def damage(text: str, kind: str, draw: st.DrawFn) -> str:
    if kind == "cut":
        return text[
            : draw(st.integers(text.index('"score": 1') + 11, max(len(text) - 1, text.index('"score": 1') + 11)))
        ]
    if kind == "quote":
        place = draw(st.sampled_from(places(text, in_texts=True)))
        return f'{text[:place]}"{text[place:]}'
    if kind == "unescape":
        return text.replace('\\"', '"', 1)
    if kind == "single":
        quote = draw(st.sampled_from(places(text, in_texts=True)))
        begin, end = text.rindex('"', 0, quote), text.index('"', quote)
        return f"{text[:begin]}'{text[begin + 1 : end]}'{text[end + 1 :]}"
    if kind == "comma":
        place = draw(st.sampled_from(places(text, in_texts=False, marks="}]")))
        return f"{text[:place]},{text[place:]}"
    marks = {"bracket": "{}[]", "no comma": ","}[kind]
    found = places(text, in_texts=False, marks=marks)
    assume(found)
    place = draw(st.sampled_from(found))
    return text[:place] + text[place + 1 :]


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def holds_part(data: Any) -> bool:
    return data == PART or (isinstance(data, list) and any(map(holds_part, data)))


DAMAGES = ["cut", "bracket", "quote", "unescape", "single", "comma", "no comma"]


@pytest.mark.parametrize("kind", DAMAGES)
@settings(max_examples=tries(30, 2000), deadline=None)
@given(draw=st.data(), before=BEFORE, after=AFTER, indent=st.sampled_from([None, 2]))
def test_a_part_of_a_damaged_value_is_never_a_verdict(
    kind: str, draw: st.DataObject, before: str, after: str, indent: int | None
) -> None:
    damaged = damage(json.dumps(draw.draw(holders()), indent=indent), kind, draw.draw)
    assume(not is_json(damaged))
    text = before + damaged + ("" if kind == "cut" else after)

    assert not [found for found in outer_objects(text) if found.value == PART]
    assert not [found for found in outer_values(text) if holds_part(found.value)]
    parsed = parse_answer(text)
    assert parsed is ABSENT or not holds_part(parsed)
    with contextlib.suppress(ValueError):
        assert own_object(text, has_score, JudgeQuestion("s", "u"), "a number as `score`") != PART


PROSE = st.sampled_from(
    [
        *(
            "it's",
            'She said "hi"',
            'She said "hi":',
            "the set {1, 2}",
            "{placeholder}",
            "{{ name }}",
            "{0} and {name!r}",
        ),
        *(
            "a lone { brace is",
            "a lone } brace",
            "see [1]",
            "[above]",
            "(a [link](http://x))",
            "[0, 1) and [1 on",
            "[[Wiki]]",
        ),
        *(
            r"$\frac{1}{2}$",
            r"$\{x : x > 0\}$",
            r"\text{a: b}",
            ":-}",
            "well :{ ",
            ";-]",
            ":]",
            "f(){ return 1; }",
            '"key": value',
        ),
        *(
            'if (x) { y("}"); }',
            "d = {'a': 1}",
            'x = {name: "a b", f: [1, 2]}',
            '`{"a": 1}`',
            '"{"',
            '"}"',
            "'{'",
            "[^}]+",
        ),
        *(
            'char *s[] = {"a", "b"};',
            "{note: this is it}",
            "{x: 1}, then",
            'f"{x}"',
            "a{2,3}",
            'arr[0]["k"]',
            '5" screen',
            "\n",
        ),
        '\n```python\nd = {"a": [x for x in "ab"], \'b\': f("}")}\n```\n',
        "\n```js\nconst a = { name: \"it's\", f() { return '}'; } };\n```\n",
        '\n```\n{ broken: "x" y }\n```\n',
        '\n```css\na { color: "red"; }\n```\n',
    ]
)


@settings(max_examples=tries(100, 5000), deadline=None)
@given(
    before=st.lists(PROSE, max_size=3).map(" ".join),
    written=around(PART) | st.lists(around(PART), min_size=1, max_size=3),
    after=st.lists(PROSE, max_size=2).map(" ".join),
    indent=st.sampled_from([None, 2]),
    form=st.sampled_from(["{} {} {}", "{}: {}. {}", "{}\n{}\n{}", "{}\n```json\n{}\n```\n{}"]),
)
def test_a_whole_value_amid_honest_prose_is_found(
    before: str, written: Any, after: str, indent: int | None, form: str
) -> None:
    text = json.dumps(written, indent=indent)
    assert text in [found.text for found in outer_values(form.format(before, text, after))]


JUDGEMENT = '{"score": 0.2, "reasoning": "The tax is missing."}'


@pytest.mark.parametrize("judgement", [f"```json\n{JUDGEMENT}\n```\n", f"{JUDGEMENT}\n\n"], ids=["fenced", "bare"])
@pytest.mark.parametrize(
    "behind",
    [
        'The "p" lies in (0, 1].',
        'The answer ends with "]}", as it should.',
        'The "answer" ends with `120}`.',
        "The partition {[1], [2]} is right.",
        'Use `{{"a", 1}, {"b", 2}}`.',
        'It is `{..., "tags": ["x"]}`.',
        'It lacks `"tax": 20}` at the end.',
        'Missing: "tags": ["a", "b"], "n": 1',
        '```cpp\nmap<string,int> m = {{"a", 1}, {"b", 2}};\n```',
    ],
)
def test_brackets_behind_a_blank_line_or_a_fence_leave_the_value_before_them_whole(judgement, behind):
    assert [each.value["score"] for each in outer_objects(judgement + behind)] == [0.2]
    later = f'{judgement}{behind} I would have said:\n\n{{"score": 1}}'
    assert [each.value["score"] for each in outer_objects(later)] == [0.2, 1], "the first one counts"


def test_no_later_value_stands_for_one_in_doubt():
    assert [*outer_objects('{"a": {"b": 1} is", "c": 99}\n{"score": 1}')] == []
    assert [*outer_objects('{"score": 0.2} "x" 1] {"score": 1}')] == []


@pytest.mark.parametrize("type_", ['{"unit": "EUR" | "USD"}', '{"a": x + "b", "c": 1}'])
def test_operators_between_texts_are_code_and_no_quotation_marks_in_doubt(type_):
    assert [each.value["score"] for each in outer_objects(f"It is {type_}.\n\n{JUDGEMENT}")] == [0.2]
