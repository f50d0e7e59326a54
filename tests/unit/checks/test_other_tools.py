"""Verdicts beside those of other tools whose checks have the same names."""

import pytest


@pytest.mark.parametrize(
    ("check", "answer", "passes"),
    [
        # The answer is a text, so the encoding that its XML declares does not count.
        ({"is-xml": True}, '<?xml version="1.0" encoding="UTF-16"?><a>é</a>', True),
        ({"is-xml": True}, '<?xml version="1.0" encoding="Shift_JIS"?><a>é</a>', True),
        ({"is-xml": True}, '<?xml version="1.0" encoding="nope"?><a/>', True),
        ({"is-xml": True}, "<p:a/>", False),
        ({"is-xml": True}, '<a p:x="1"/>', False),
        ({"is-xml": True}, "<a:/>", False),
        ({"is-xml": True}, '<a xmlns:p="u" xmlns:q="u" p:x="1" q:x="2"/>', False),
        ({"is-xml": True}, '<p:a xmlns:p="u" xml:lang="en"/>', True),
        ({"is-xml": True}, '<a xmlns="u v"/>', True),
    ],
)
def test_a_check_finds_what_the_same_check_of_another_tool_finds(bench, check, answer, passes):
    result = bench.judged(check, answer)
    assert (result.score, result.error) == (float(passes), None)
