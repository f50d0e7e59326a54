"""The document that agents get."""

from pytest_agentv.cases.prompts import build_preread, file_uri

CLOSING = """\
Should one of them not be there, reply with `ERROR: missing-file <filename>` and do nothing else.
Once you have read them, follow your system_instructions to answer the user query below.

[[ ## user_query ## ]]

Review."""


def test_guidelines_and_inputs_are_linked_before_the_query() -> None:
    document = build_preread("\n Review. ", ["/R/a.instructions.md", "/R/b.md"], ["/R/evals/a.py"])
    assert document == (
        "Read each of these guideline files:\n"
        "* [a.instructions.md](file:///R/a.instructions.md)\n"
        "* [b.md](file:///R/b.md).\n"
        "Read each of these input files:\n"
        "* [a.py](file:///R/evals/a.py).\n"
        f"{CLOSING}"
    )


def test_inputs_can_be_called_attachments() -> None:
    assert build_preread("Review.", [], ["/R/a.py"], input_word="attachment") == (
        f"Read each of these attachment files:\n* [a.py](file:///R/a.py).\n{CLOSING}"
    )


def test_guidelines_alone_have_no_list_of_inputs() -> None:
    assert build_preread("Review.", ["/R/a.md"], []) == (
        f"Read each of these guideline files:\n* [a.md](file:///R/a.md).\n{CLOSING}"
    )


def test_each_file_is_linked_once() -> None:
    document = build_preread("Review.", ["/R/g.md", "/R/g.md"], ["/R/g.md", "/R/a.py", "/R/a.py"])
    assert document.count("file:///R/g.md") == document.count("file:///R/a.py") == 1


def test_without_files_there_is_only_the_query() -> None:
    assert build_preread(" Hi\n", [], []) == "[[ ## user_query ## ]]\n\nHi"


def test_an_empty_query_leaves_the_marker() -> None:
    assert build_preread("", [], []) == "[[ ## user_query ## ]]"


def test_links_are_not_percent_encoded() -> None:
    assert file_uri("/R/my notes/über.md") == "file:///R/my notes/über.md"


def test_links_of_relative_looking_drives_get_three_slashes() -> None:
    assert file_uri("C:/R/a.md") == "file:///C:/R/a.md"
