"""The messages of a case: its input with files, and the answer it expects."""

import json
from pathlib import Path

import pytest

from pytest_agentv.cases.cases import LoadedCase, load_case
from pytest_agentv.cases.references import DEFAULT_GUIDELINE_PATTERNS, load_guideline_patterns
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cases.written import LoadContext
from pytest_agentv.errors import CaseError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import FilePart, InputMessage, ObjectPart, OtherPart, TextPart

PATTERNS = ("**/*.instructions.md",)


@pytest.fixture(autouse=True)
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("evals", "docs", "prompts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "prompts" / "py.instructions.md").write_bytes(b"Rule A\r\nRule B\n\n")
    (tmp_path / "evals" / "a.py").write_text("print(1)\n")
    (tmp_path / "docs" / "spec.txt").write_text("DOC\n")
    return tmp_path


def load(messages: str, patterns: tuple[str, ...] = PATTERNS) -> LoadedCase:
    """Load a case with its messages, a YAML flow text, on line 2."""
    path = Path("evals/qa.yaml")
    path.write_text(f"evalcases:\n  - {{id: a, outcome: ok, {messages}}}\n", encoding="utf-8")
    suite = read_suite(path)
    return load_case(suite, suite.entries[0], LoadContext(Path.cwd(), Path.cwd(), patterns, evaluators=EVALUATORS))


def case_of(messages: str) -> EvalCase:
    return load(messages).case


def expecting(expected: str) -> EvalCase:
    return load(f"input: hi, {expected}").case


S1_CONTENT = """[
    {type: text, value: "  Review this.  "}, {type: file, value: /prompts/py.instructions.md},
    {type: file, value: a.py}, {type: file, value: /docs/spec.txt}, {type: text, value: "   "},
    {type: audio, value: img}
]"""


@pytest.mark.scenario("Validate file reference resolution")
def test_text_files_and_guidelines_of_a_message(repo: Path) -> None:
    loaded = load(f"input_messages: [{{role: user, content: {S1_CONTENT}}}]")
    guideline = str(repo / "prompts" / "py.instructions.md")
    code, spec = str(repo / "evals" / "a.py"), str(repo / "docs" / "spec.txt")
    assert loaded.case.messages == (
        InputMessage(
            "user",
            (
                TextPart("  Review this.  "),
                FilePart(
                    "/prompts/py.instructions.md", "prompts/py.instructions.md", guideline, "Rule A\nRule B\n\n", True
                ),
                FilePart("a.py", "a.py", code, "print(1)\n"),
                FilePart("/docs/spec.txt", "docs/spec.txt", spec, "DOC\n"),
                TextPart("   "),
                OtherPart({"type": "audio", "value": "img"}),
            ),
        ),
    )
    assert loaded.case.question == "Review this. img"
    assert loaded.case.guideline_paths == (guideline,)
    assert loaded.case.file_paths == (guideline, code, spec)
    assert [str(warning) for warning in loaded.warnings] == [
        "evals/qa.yaml:5: evalcases[0].input_messages[0].content[5]: "
        "an item of type 'audio' is not sent to the target; only text, file and image items are"
    ]


@pytest.mark.scenario("Multi-turn conversation handling")
def test_a_conversation_keeps_its_turns() -> None:
    case = case_of(
        "input: [{role: system, content: SYS}, {role: user, content: [Q1, {value: x}]},"
        " {role: assistant, tool_calls: [{tool: t}]}, {role: tool, content: {result: 3}},"
        " {role: user, content: ' Q2 '}]"
    )
    assert case.messages == (
        InputMessage("system", (TextPart("SYS"),)),
        InputMessage("user", (TextPart("Q1"), OtherPart({"value": "x"}))),
        InputMessage("assistant"),
        InputMessage("tool", (ObjectPart({"result": 3}),)),
        InputMessage("user", (TextPart(" Q2 "),)),
    )
    assert case.input_messages[2] == {"role": "assistant", "tool_calls": [{"tool": "t"}]}
    assert case.question == 'SYS Q1 x {\n  "result": 3\n} Q2'


@pytest.mark.scenario("Load custom guideline patterns")
def test_patterns_of_the_config_file_decide_what_is_a_guideline(repo: Path) -> None:
    (repo / "evals" / ".agentv.yaml").write_text("guideline_patterns: ['docs/**']\n")
    patterns = load_guideline_patterns(repo / "evals", repo).patterns
    case = load(f"input: [{{role: user, content: {S1_CONTENT}}}]", patterns).case
    assert case.guideline_paths == (str(repo / "docs" / "spec.txt"),)


@pytest.mark.scenario("Use defaults when config absent")
def test_files_below_prompts_are_guidelines_by_default(repo: Path) -> None:
    (repo / "prompts" / "b.md").write_text("x")
    case = load("input: [{role: user, content: [{type: file, value: /prompts/b.md}]}]", DEFAULT_GUIDELINE_PATTERNS).case
    assert case.guideline_paths == (str(repo / "prompts" / "b.md"),)


def test_a_guideline_written_with_dots_is_recognized(repo: Path) -> None:
    case = case_of("input: [{role: user, content: [{type: file, value: ../prompts/py.instructions.md}]}]")
    assert case.guideline_paths == (str(repo / "prompts" / "py.instructions.md"),)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("hi", ": expected a message: a mapping with role and content, got the text 'hi'"),
        ("{content: x}", ".role: expected one of system, user, assistant, tool, got null"),
        (
            "{role: users, content: x}",
            ".role: expected one of system, user, assistant, tool, got the text 'users' (did you mean 'user'?)",
        ),
        ("{role: user, content: 5}", ".content: expected a text, a list or a mapping, got the number 5"),
        ("{role: user, content: null}", ".content: expected a text, a list or a mapping, got null"),
        ("{role: user}", ": the message has no content"),
        ("{role: user, contents: x}", ": the message has no content (is 'contents' a misspelling of it?)"),
        ("{role: assistant, tool_calls: []}", ": the message has no content"),
        ("{role: user, content: [{type: text}]}", ".content[0]: the text item has no value"),
        (
            "{role: user, content: [{type: text, text: x}]}",
            ".content[0]: the text item has no value (rename 'text' to 'value')",
        ),
        ("{role: user, content: [{type: text, value: 5}]}", ".content[0].value: expected a text, got the number 5"),
        (
            "{role: user, content: [{type: file, path: x}]}",
            ".content[0]: the file item has no value (rename 'path' to 'value')",
        ),
        (
            "{role: user, content: [{type: file, value: ' '}]}",
            ".content[0].value: expected the path of a file, got the text ' '",
        ),
        (
            "{role: user, content: [{type: file, value: no.md}]}",
            ".content[0].value: file 'no.md' was not found; searched: evals/no.md, no.md",
        ),
    ],
)
@pytest.mark.parametrize("role", ["input", "expected_output"])
def test_a_broken_message_says_what_is_wrong(role: str, message: str, fault: str) -> None:
    messages = f"input: [{message}]" if role == "input" else f"input: x, expected_output: [{message}]"
    with pytest.raises(CaseError) as caught:
        load(messages)
    assert str(caught.value) == f"evals/qa.yaml:2: evalcases[0].{role}[0]{fault}"


def test_an_item_of_the_input_that_is_neither_text_nor_mapping_is_an_error() -> None:
    with pytest.raises(CaseError) as caught:
        load("input: [{role: user, content: [5]}]")
    assert str(caught.value) == (
        "evals/qa.yaml:2: evalcases[0].input[0].content[0]: "
        "expected a text or a mapping with type and value, got the number 5"
    )


@pytest.mark.parametrize(
    ("item", "warning"),
    [
        ("{value: x}", "an item without a type is not sent to the target; only text, file and image items are"),
        (
            "{type: txt, value: x}",
            "an item of type 'txt' is not sent to the target; only text, file and image items are "
            "(did you mean 'text'?)",
        ),
    ],
)
def test_an_item_that_prompts_do_not_show_is_a_warning(item: str, warning: str) -> None:
    loaded = load(f"input: [{{role: user, content: [{item}]}}]")
    assert [problem.message + (f" ({problem.hint})" if problem.hint else "") for problem in loaded.warnings] == [
        warning
    ]


@pytest.mark.parametrize(
    ("written", "is_told"),
    [
        ("' '", True),
        ("[]", True),
        ("[{role: system, content: ''}, {role: user, content: [' ', {type: text, value: ''}]}]", True),
        ("{file: empty.md}", True),
        ("[{role: user, content: [{type: file, value: empty.md}]}]", True),
        ("[{role: system, content: Be brief.}, {role: user, content: ''}]", False),
        ("[{role: user, content: ['', {type: file, value: full.md}]}]", False),
        ("[{role: user, content: {}}]", False),
    ],
)
def test_input_of_which_nothing_is_sent_is_a_warning(written: str, is_told: bool) -> None:
    Path("evals/empty.md").write_text("\n")
    Path("evals/full.md").write_text("hello")
    told = [str(problem) for problem in load(f"input: {written}").warnings]
    assert told == ["evals/qa.yaml:2: evalcases[0].input: is blank: the target is asked nothing"] * is_told


@pytest.mark.parametrize(
    ("expected", "reference"),
    [
        ("expected_messages: []", ""),
        ("expected_output: '  text '", "  text "),
        ("expected_output: {a: [1]}", '{\n  "a": [\n    1\n  ]\n}'),
        ("expected_output: {role: assistant, content: one}", "one"),
        ("expected_output: {role: assistant, tool_calls: [{tool: a}]}", '[\n  {\n    "tool": "a"\n  }\n]'),
        ("expected_output: {role: customer, content: Hi}", '{\n  "role": "customer",\n  "content": "Hi"\n}'),
        ("expected_output: {role: 5, content: Hi}", '{\n  "role": 5,\n  "content": "Hi"\n}'),
        ("expected_output: {role: admin, name: Ada}", '{\n  "role": "admin",\n  "name": "Ada"\n}'),
        ("expected_messages: [{role: assistant, content: first}, {role: assistant, content: last}]", "last"),
        ("expected_messages: [{role: assistant, content: [{type: text, value: x}, y]}]", None),
        ("expected_messages: [{role: assistant, tool_calls: [{tool: a}]}]", '[\n  {\n    "tool": "a"\n  }\n]'),
        ("expected_messages: [{role: assistant, content: '', tool_calls: [{tool: a}]}]", ""),
    ],
)
def test_the_reference_answer_is_the_last_expected_message(expected: str, reference: str | None) -> None:
    pretty = json.dumps([{"type": "text", "value": "x"}, "y"], indent=2)
    assert expecting(expected).reference_answer == (pretty if reference is None else reference)


def test_one_message_needs_no_list() -> None:
    assert case_of("input: {role: system, content: Be brief.}").messages[0].role == "system"
    assert expecting("expected_output: {role: user, content: {a: 1}}").expected_messages[0]["role"] == "user"
    with pytest.raises(CaseError, match=r"expected_output\.role: expected one of .*, got the text 'asistant'"):
        expecting("expected_output: {role: asistant, content: {a: 1}}")
    with pytest.raises(CaseError, match=r"input\.role: expected one of .*, got the text 'customer'"):
        case_of("input: {role: customer, content: Hi}")


def test_a_file_in_an_expected_message_is_replaced_by_its_text(repo: Path) -> None:
    case = expecting("expected_messages: [{role: assistant, content: [{type: file, value: /docs/spec.txt, note: x}]}]")
    path = str(repo / "docs" / "spec.txt")
    item = {"type": "file", "path": "docs/spec.txt", "text": "DOC\n", "resolvedPath": path}
    assert case.expected_messages == ({"role": "assistant", "content": [item]},)
    assert case.reference_answer == json.dumps([item], indent=2)


def test_a_guideline_in_an_expected_message_is_no_guideline() -> None:
    case = expecting(
        "expected_output: [{role: assistant, content: [{type: file, value: /prompts/py.instructions.md}]}]"
    )
    assert (case.guideline_paths, case.file_paths) == ((), ())


def test_the_tool_calls_of_an_expected_message_are_handed_on_in_whatever_shape_they_have() -> None:
    calls = "[{tool: a, input: {Q: 1}, note: mine}, {id: x, type: function, function: {name: f, arguments: '{}'}}]"
    case = expecting(f"expected_messages: [{{role: assistant, name: bot, tool_calls: {calls}}}]")
    openai_call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert case.expected_messages == (
        {
            "role": "assistant",
            "name": "bot",
            "tool_calls": [{"tool": "a", "input": {"Q": 1}, "note": "mine"}, openai_call],
        },
    )


@pytest.mark.parametrize(
    ("calls", "fault"),
    [
        ("x", ".tool_calls: expected a list of tool calls, got the text 'x'"),
        (
            "[x]",
            ".tool_calls[0]: expected a tool call: a mapping with the name of a tool under the key 'tool', "
            "got the text 'x'",
        ),
    ],
)
def test_broken_tool_calls_say_what_is_wrong(calls: str, fault: str) -> None:
    with pytest.raises(CaseError) as caught:
        expecting(f"expected_messages: [{{role: assistant, content: x, tool_calls: {calls}}}]")
    assert str(caught.value) == f"evals/qa.yaml:2: evalcases[0].expected_messages[0]{fault}"


UNKNOWN = [
    ("{role: user, content: x, contnet: y}", "contnet: unknown key (did you mean 'content'?)"),
    (
        "{role: user, content: x, attachement: y}",
        "attachement: unknown key (a file is an item of the `content`: {type: file, value: PATH})",
    ),
    (
        "{role: user, content: x, files: [nope.md]}",
        "files: unknown key (a file is an item of the `content`: {type: file, value: PATH})",
    ),
    (
        "{role: user, content: [x, {type: text, value: x, vaule: z}]}",
        "content[1].vaule: unknown key (did you mean 'value'?)",
    ),
]


@pytest.mark.parametrize(("message", "warning"), UNKNOWN)
@pytest.mark.parametrize("key", ["input", "expected_output"])
def test_an_unknown_key_of_a_message_is_a_warning(key: str, message: str, warning: str) -> None:
    asked = "" if key == "input" else "input: hi, "
    loaded = load(f"{asked}{key}:\n  [{message}]")
    assert [str(each) for each in loaded.warnings] == [f"evals/qa.yaml:3: evalcases[0].{key}[0].{warning}"]


def test_an_unknown_key_gives_one_warning_in_a_case() -> None:
    message = "{role: user, content: [{type: text, value: x, vaule: z}], fiels: y}"
    assert len(load(f"input: [{message}, {message}]").warnings) == 2
    assert len(load(f"input: {message}").warnings) == 2


def test_tool_calls_of_the_input_are_a_warning_because_they_are_not_sent() -> None:
    calls = "{role: assistant, content: ok, tool_calls: [{tool: t}]}"
    (warning,) = load(f"input: [{{role: user, content: x}}, {calls}], expected_output: {calls}").warnings
    assert str(warning) == (
        "evals/qa.yaml:2: evalcases[0].input[1].tool_calls: is not sent to the target; only the `content` of a message "
        "is (write into it what was called, or leave the message out)"
    )


@pytest.mark.parametrize(
    "message",
    [
        "{role: user, name: Ada, content: x}",
        "{role: tool, tool_call_id: c1, content: x}",
        "{role: assistant, content: x, tool_calls: []}",
        "{role: assistant, content: x, timestamp: 2026-01-01, metadata: {run: 1}}",
        "{role: user, content: {answer: x, vaule: z}}",
        "{role: user, content: [{type: text, value: x, cache_control: {type: ephemeral}}]}",
        "{role: user, content: [{type: file, value: a.py, path: a.py, text: x, resolvedPath: /a.py}]}",
    ],
)
@pytest.mark.parametrize("key", ["input", "expected_output"])
def test_keys_of_apis_and_of_recorded_messages_give_no_warning(key: str, message: str) -> None:
    asked = "" if key == "input" else "input: hi, "
    assert load(f"{asked}{key}: [{message}]").warnings == ()
