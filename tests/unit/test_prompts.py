"""Prompts: flat texts, conversations and chat messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import ChatMessage, Prompt, PromptMode, build_preread, build_prompt, file_uri
from pytest_agentv.model.base import trim
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import (
    ROLES,
    ContentPart,
    FilePart,
    InputMessage,
    ObjectPart,
    OtherPart,
    Role,
    TextPart,
)

CODE = FilePart("a.py", "a.py", "/R/evals/a.py", "print(1)\n")
SPEC = FilePart("/docs/spec.txt", "docs/spec.txt", "/R/docs/spec.txt", "DOC\n")
RULES = FilePart(
    "/prompts/py.instructions.md",
    "prompts/py.instructions.md",
    "/R/prompts/py.instructions.md",
    "Rule A\nRule B\n\n",
    is_guideline=True,
)
RULES_TEXT = '<file path="py.instructions.md">\nRule A\nRule B\n</file>'
CODE_TEXT = '<file path="a.py">\nprint(1)\n</file>'
SPEC_TEXT = '<file path="docs/spec.txt">\nDOC\n</file>'
STYLE = FilePart("../style.md", "../style.md", "/R/style.md", "\ufeffBe brief.", is_guideline=True)
EMPTY = FilePart("empty.txt", "empty.txt", "/R/evals/empty.txt", " \n")


def message(role: Role, *parts: ContentPart | str) -> InputMessage:
    return InputMessage(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def prompt_of(*messages: InputMessage, mode: PromptMode = "lm") -> Prompt:
    case = EvalCase("c1", "d", "/R/evals/d.yaml", 1, "It works.", "", messages, ())
    return build_prompt(case, mode)


REVIEW = message(
    "user", "  Review this.  ", RULES, CODE, SPEC, "   ", OtherPart({"type": "image", "value": "img"})
)  # fmt: skip
CONVERSATION = (
    message("system", "SYS"),
    message("user", CODE, SPEC, RULES, "Q1 "),
    message("assistant", "A1"),
    message("tool", ObjectPart({"result": 3})),
    message("system", "late sys"),
    message("user", "   "),
    message("user", "Q2"),
)


@pytest.mark.parametrize(
    ("messages", "mode", "expected"),
    [
        ((REVIEW,), "lm", Prompt(f"Review this.\n\n{CODE_TEXT}\n\n{SPEC_TEXT}", RULES_TEXT)),
        (
            (REVIEW,),
            "agent",
            Prompt('Review this.\n\n<file: path="a.py">\n\n<file: path="docs/spec.txt">', RULES_TEXT),
        ),
        ((message("system", RULES), message("user", "hello")), "lm", Prompt("hello", RULES_TEXT)),
        ((message("user", RULES),), "lm", Prompt("", RULES_TEXT)),
        ((), "lm", Prompt("")),
        (
            (message("user", ObjectPart({"größe": [1], "leer": {}})),),
            "lm",
            Prompt('{\n  "größe": [\n    1\n  ],\n  "leer": {}\n}'),
        ),
        ((message("user", "Q", EMPTY, EMPTY.replace(is_guideline=True)),), "lm", Prompt("Q")),
        ((message("user", "Q", EMPTY),), "agent", Prompt('Q\n\n<file: path="empty.txt">')),
        (
            (message("user", RULES, STYLE),),
            "lm",
            Prompt("", f'{RULES_TEXT}\n\n<file path="style.md">\nBe brief.\n</file>'),
        ),
        (
            (message("system", "Be kind."), message("user", "Hi")),
            "lm",
            Prompt(
                "@[System]:\nBe kind.\n\n@[User]:\nHi",
                chat_prompt=(ChatMessage("system", "Be kind."), ChatMessage("user", "Hi")),
            ),
        ),
        (
            (message("user", "Hi"), message("assistant")),
            "lm",
            Prompt("@[User]:\nHi", chat_prompt=(ChatMessage("user", "Hi"),)),
        ),
        ((message("system", EMPTY), message("user", "Hi")), "lm", Prompt("Hi")),
    ],
)
def test_messages_are_a_flat_text_unless_roles_matter(
    messages: tuple[InputMessage, ...], mode: PromptMode, expected: Prompt
) -> None:
    assert prompt_of(*messages, mode=mode) == expected


class TestConversation:
    def test_a_model_gets_marked_turns_and_the_texts_of_files_with_a_leading_slash_too(self) -> None:
        assert prompt_of(*CONVERSATION).question == (
            "@[System]:\nSYS\n\n"
            f"@[User]:\n{CODE_TEXT}\n{SPEC_TEXT}\n<Attached: /prompts/py.instructions.md>\nQ1 \n\n"
            "@[Assistant]:\nA1\n\n"
            '@[Tool]:\n{\n  "result": 3\n}\n\n'
            "@[System]:\nlate sys\n\n"
            "@[User]:\nQ2"
        )

    def test_chat_messages_hold_guidelines_in_the_system_message_and_mark_late_roles(self) -> None:
        assert prompt_of(*CONVERSATION).chat_prompt == (
            ChatMessage("system", f"[[ ## Guidelines ## ]]\n\n{RULES_TEXT}\n\nSYS"),
            ChatMessage("user", f"{CODE_TEXT}\n{SPEC_TEXT}\nQ1 "),
            ChatMessage("assistant", "A1"),
            ChatMessage("assistant", '@[Tool]:\n{\n  "result": 3\n}'),
            ChatMessage("assistant", "@[System]:\nlate sys"),
            ChatMessage("user", "Q2"),
        )

    def test_leading_system_messages_name_their_guidelines(self) -> None:
        prompt = prompt_of(message("system", "A", RULES), message("system", " "), message("user", "Hi"))
        assert prompt.chat_prompt == (
            ChatMessage(
                "system",
                f"[[ ## Guidelines ## ]]\n\n{RULES_TEXT}\n\nA\n<Attached: /prompts/py.instructions.md>",
            ),
            ChatMessage("user", "Hi"),
        )


TEXTS = st.text('a@[]: \n\ufeff\xe9"', max_size=6)
FILES = st.builds(FilePart, TEXTS, TEXTS, TEXTS.map("/R/".__add__), TEXTS, st.booleans())
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, st.lists, max_leaves=4)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=3)
PARTS = st.builds(TextPart, TEXTS) | FILES | st.builds(ObjectPart, OBJECTS) | st.builds(OtherPart, OBJECTS)
MESSAGES = st.lists(st.builds(InputMessage, st.sampled_from(ROLES), st.lists(PARTS, max_size=4).map(tuple)), max_size=5)


@given(MESSAGES)
def test_a_chat_exists_exactly_when_roles_matter_and_holds_no_blank_turn(messages: list[InputMessage]) -> None:
    prompt = prompt_of(*messages)
    if any(message.role in ("assistant", "tool") for message in messages):
        assert prompt.chat_prompt is not None
    assert all(trim(turn.content) for turn in prompt.chat_prompt or ())


@pytest.mark.parametrize("blank", [" \t\n\r\v\f", "\ufeff", "\xa0\u2003\u2028\u3000"])
def test_trimming_takes_what_javascript_trims(blank: str) -> None:
    assert trim(f"{blank}a{blank}b{blank}") == f"a{blank}b"


def test_agents_are_given_links_to_each_file_once_before_the_query() -> None:
    guidelines, inputs = ["/R/a.instructions.md", "/R/b.md", "/R/b.md"], ["/R/b.md", "/R/evals/a.py", "/R/evals/a.py"]
    assert build_preread("\n Review. ", guidelines, inputs) == (
        "Read each of these guideline files:\n"
        "* [a.instructions.md](file:///R/a.instructions.md)\n"
        "* [b.md](file:///R/b.md).\n"
        "Read each of these input files:\n"
        "* [a.py](file:///R/evals/a.py).\n"
        "Should one of them not be there, reply with `ERROR: missing-file <filename>` and do nothing else.\n"
        "Once you have read them, follow your system_instructions to answer the user query below.\n\n"
        "[[ ## user_query ## ]]\n\nReview."
    )
    assert "Read each of these attachment files:" in build_preread("Q", [], ["/R/a.py"], input_word="attachment")
    assert "input files" not in build_preread("Review.", ["/R/a.md"], [])
    assert build_preread(" Hi\n", [], []) == "[[ ## user_query ## ]]\n\nHi"
    assert build_preread("", [], []) == "[[ ## user_query ## ]]"
    assert file_uri("/R/my notes/über.md") == "file:///R/my notes/über.md"
    assert file_uri("C:/R/a.md") == "file:///C:/R/a.md"
