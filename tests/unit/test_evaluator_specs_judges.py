"""Code judges and LLM judges: scripts, prompts and rubrics."""

import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.evaluators import load_evaluators
from pytest_agentv.cases.references import References, Scope
from pytest_agentv.evaluators.judge import LlmJudge, Rubric
from pytest_agentv.evaluators.script import CodeJudge, Proxy
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import read_yaml


class Loaded:
    """The outcome of loading a list of evaluators, its first item on line 2."""

    def __init__(self, text: str) -> None:
        path = Path("qa.yaml").absolute()
        path.write_text(f"evaluators:\n{text}\n", encoding="utf-8")
        source = read_yaml(path)
        place = Place(source, ("evaluators",), [])
        references = References(path.parent, path.parent, path.parent)
        scope = Scope(source.value["evaluators"], place, references, EVALUATORS)
        self.specs = load_evaluators(scope)
        self.errors = [str(problem) for problem in place.problems if problem.level == "error"]
        self.warnings = [str(problem) for problem in place.problems if problem.level == "warning"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(settings: str) -> Loaded:
    return Loaded(f"  - {{name: e, {settings}}}")


def config_of(settings: str) -> Any:
    loaded = load(settings)
    assert (loaded.errors, loaded.warnings) == ([], [])
    found: Any = loaded.specs[0]
    return found.model_copy(update={"name": None})


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("[python3, judges/x.py, --strict]", ("python3", "judges/x.py", "--strict")),
        ("'python3 judges/x.py'", ("sh", "-lc", "python3 judges/x.py")),
        ("x.py", ("sh", "-lc", "x.py")),
        ("check", ("sh", "-lc", "check")),
    ],
)
@pytest.mark.parametrize("kind", ["code_judge", "code"])
def test_a_script_is_a_command(folder: Path, kind: str, script: str, command: tuple[str, ...]) -> None:
    assert config_of(f"type: {kind}, script: {script}") == CodeJudge(script=command, cwd=str(folder))


@pytest.mark.scenario("Code evaluator execution")
@pytest.mark.parametrize(
    ("name", "interpreter"), [("x.py", sys.executable), ("x.js", "node"), ("x.mjs", "node"), ("x.sh", "sh")]
)
def test_a_script_that_is_the_path_of_a_file_is_run_by_its_interpreter(
    folder: Path, name: str, interpreter: str
) -> None:
    (folder / "judges").mkdir()
    script = folder / "judges" / name
    script.write_text("")
    assert config_of(f"type: code, script: judges/{name}") == CodeJudge(
        script=(interpreter, str(script)), cwd=str(folder)
    )
    in_cwd = config_of(f"type: code, script: ' ./{name} ', cwd: judges")
    assert in_cwd == CodeJudge(script=(interpreter, str(script)), cwd=str(folder / "judges"))


@pytest.mark.parametrize("name", ["x.py", "x.js", "x.sh"])
def test_an_executable_that_names_its_interpreter_is_run_as_it_stands(folder: Path, name: str) -> None:
    script = folder / "judges" / name
    script.parent.mkdir()
    script.write_text("#!/usr/bin/env -S uv run --script\n")
    script.chmod(0o755)
    assert config_of(f"type: code_judge, script: ./judges/{name}") == CodeJudge(script=(str(script),), cwd=str(folder))


@pytest.mark.parametrize(("mode", "text"), [(0o644, "#!/bin/bash\n"), (0o755, "echo")])
def test_a_file_that_cannot_be_run_as_it_stands_needs_an_interpreter(folder: Path, mode: int, text: str) -> None:
    script = folder / "judges" / "x.sh"
    script.parent.mkdir()
    script.write_text(text)
    script.chmod(mode)
    assert config_of("type: code_judge, script: ./judges/x.sh") == CodeJudge(
        script=("sh", str(script)), cwd=str(folder)
    )


def test_other_keys_of_a_code_judge_are_its_config(folder: Path) -> None:
    config = config_of("type: code_judge, script: [x], weight: 2, camelKey: {innerKey: 1}, config: null, name2: x")
    expected = {"camelKey": {"innerKey": 1}, "config": None, "name2": "x"}
    assert config == CodeJudge(script=("x",), cwd=str(folder), weight=2, **expected)


@pytest.mark.parametrize(
    ("target", "proxy"),
    [
        ("true", Proxy()),
        ("false", None),
        ("null", None),
        ("{}", Proxy()),
        ("{max_calls: 0}", Proxy(max_calls=0)),
        ("{maxCalls: 5}", Proxy(max_calls=5)),
    ],
)
def test_the_target_of_a_code_judge(folder: Path, target: str, proxy: Proxy | None) -> None:
    assert config_of(f"type: code_judge, script: [x], target: {target}") == CodeJudge(
        script=("x",), cwd=str(folder), target=proxy
    )


COMMAND = "expected a command: a text or a list of non-empty texts"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ("type: code_judge", ".script: is missing"),
        ("type: code_judge, script: '  '", f".script: {COMMAND}, got the text '  '"),
        ("type: code_judge, script: []", f".script: {COMMAND}, got an empty list"),
        ("type: code_judge, script: [python3, 5]", f".script: {COMMAND}, got a list"),
        ("type: code_judge, script: {a: b}", f".script: {COMMAND}, got a mapping"),
        (
            "type: code_judge, script: judges/x.py",
            ".script: file 'judges/x.py' was not found; searched: judges/x.py",
        ),
        ("type: code_judge, script: [x], cwd: no", ".cwd: folder 'no' was not found; searched: no"),
        (
            "type: code_judge, script: [x], cwd: 5",
            '.cwd: expected a non-empty text, got the number 5 (put it into quotes: "5")',
        ),
        (
            "type: code_judge, script: [x], target: 5",
            ".target: expected true or a mapping with max_calls, got the number 5",
        ),
        (
            "type: code_judge, script: [x], target: {max_calls: -1}",
            ".target.max_calls: expected a number of 0 or more, got the number -1",
        ),
        (
            "type: code_judge, script: [x], target: {max_calls: 1.5}",
            ".target.max_calls: expected a whole number, got the number 1.5",
        ),
        (
            "type: llm_judge, prompt: 5",
            '.prompt: expected a non-empty text, got the number 5 (put it into quotes: "5")',
        ),
        ("type: llm_judge, prompt: no.md", ".prompt: file 'no.md' was not found; searched: no.md"),
        (
            "type: llm_judge, prompt: my prompts/no.txt",
            ".prompt: file 'my prompts/no.txt' was not found; searched: my prompts/no.txt",
        ),
        ("type: llm_judge, prompt: prompts/no", ".prompt: file 'prompts/no' was not found; searched: prompts/no"),
        ("type: llm_judge, promptPath: no", ".prompt_path: file 'no' was not found; searched: no"),
        ("type: llm_judge, prompt: a, prompt_path: b", ": both prompt and prompt_path are there: keep one"),
        ("type: llm_judge, rubrics: x", ".rubrics: expected a list, got the text 'x'"),
        ("type: llm_judge, include_trace: 'yes'", ".include_trace: expected true or false, got the text 'yes'"),
        ("type: rubric", ".rubrics: is missing"),
        ("type: rubric, rubrics: []", ".rubrics: expected at least one entry, got an empty list"),
        (
            "type: rubric, rubrics: [{description: x, weight: -1}]",
            ".rubrics[0].weight: expected a number of 0 or more, got the number -1",
        ),
    ],
)
def test_a_broken_judge_says_what_is_wrong(settings: str, error: str) -> None:
    assert load(settings).errors == [f"qa.yaml:2: evaluators[0]{error}"]


ANSWER = "{{ candidate_answer }}"


@pytest.mark.parametrize("key", ["prompt", "prompt_path", "promptPath"])
@pytest.mark.scenario("User provides custom prompt for LLM judge evaluator")
def test_the_prompt_of_a_judge_is_read_from_its_file(folder: Path, key: str) -> None:
    (folder / "judge.md").write_bytes(f"Rate\r\n{ANSWER}\n".encode())
    assert config_of(f"type: llm_judge, {key}: judge.md") == LlmJudge(prompt=f"Rate\n{ANSWER}\n")


@pytest.mark.parametrize(
    "prompt", [f"Rate {ANSWER}", f"and/or {ANSWER}", f"Rate\\n{ANSWER}\\nin a.md", "{{output_messages}}"]
)
def test_an_inline_prompt_is_taken_as_it_is(prompt: str) -> None:
    config = config_of(f'type: llm_judge, prompt: "{prompt}"')
    assert config == LlmJudge(prompt=prompt.replace("\\n", "\n"))


def test_a_file_whose_name_does_not_look_like_one_is_read_too(folder: Path) -> None:
    (folder / "judge").write_text(ANSWER)
    assert config_of("type: llm_judge, prompt: judge") == LlmJudge(prompt=ANSWER)


def test_a_prompt_file_without_the_answer_is_an_error(folder: Path) -> None:
    (folder / "judge.md").write_text("Rate {{ question }}")
    assert load("type: llm_judge, prompt: judge.md").errors == [
        "qa.yaml:2: evaluators[0].prompt: the template uses neither {{ candidate_answer }} nor {{ expected_messages }}"
    ]


def test_a_prompt_without_the_answer_is_a_warning_as_it_may_be_meant() -> None:
    loaded = load("type: llm_judge, prompt: 'Is {{ question }} polite?'")
    assert loaded.errors == []
    assert loaded.warnings == [
        "qa.yaml:2: evaluators[0].prompt: the template does not use {{ candidate_answer }}: "
        "the judge does not see the answer"
    ]
    assert len(loaded.specs) == 1


def test_a_prompt_with_the_answer_and_an_unknown_variable_is_a_warning() -> None:
    loaded = load(f"type: llm_judge, prompt: '{ANSWER} {{{{ zzz }}}}'")
    assert loaded.errors == []
    assert [warning.rpartition(" (known")[0] for warning in loaded.warnings] == [
        "qa.yaml:2: evaluators[0].prompt: the template uses the unknown variable {{ zzz }}"
    ]


def test_a_misspelt_variable_in_place_of_the_answer_is_an_error() -> None:
    """A judge that gets the braces in place of the answer approves whatever the target says."""
    loaded = load("type: llm_judge, prompt: 'Rate {{ candidat_answer }} for {{zzz}}'")
    assert loaded.warnings == [
        "qa.yaml:2: evaluators[0].prompt: the template uses the unknown variable {{ candidat_answer }} "
        "(did you mean 'candidate_answer'?)",
        "qa.yaml:2: evaluators[0].prompt: the template uses the unknown variable {{ zzz }} (known: candidate_answer, "
        "expected_outcome, reference_answer, question, input_messages, expected_messages, output_messages, "
        "retrieved_context)",
    ]
    assert loaded.errors == [
        "qa.yaml:2: evaluators[0].prompt: the template does not use {{ candidate_answer }}: "
        "the judge does not see the answer "
        "({{ candidat_answer }} is not known; did you mean 'candidate_answer'?)"
    ]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("criteria", "expected_outcome"),
        ("expected_output", "reference_answer"),
        ("input", "question"),
        ("answer", "candidate_answer"),
        ("output", "candidate_answer"),
    ],
)
@pytest.mark.parametrize("is_file", [False, True])
def test_a_variable_of_newer_agentv_is_an_error_that_names_ours(
    folder: Path, name: str, ours: str, is_file: bool
) -> None:
    answer = "" if ours == "candidate_answer" else ANSWER
    text = f"Rate {answer} by {{{{ {name} }}}}"
    (folder / "judge.md").write_text(text)
    loaded = load(f"type: llm_judge, prompt: {'judge.md' if is_file else repr(text)}")
    assert loaded.warnings == []
    assert loaded.errors == [
        f"qa.yaml:2: evaluators[0].prompt: the template uses {{{{ {name} }}}}, a variable of newer AgentV "
        f"(write {{{{ {ours} }}}})"
    ]


@pytest.mark.parametrize("kind", ["rubric", "llm_judge"])
def test_a_judge_with_rubrics(kind: str) -> None:
    loaded = load(f"type: {kind}, rubrics: [Is polite, {{id: x, description: d, weight: 0, required: false}}]")
    rubrics = (
        Rubric(id="rubric-1", description="Is polite"),
        Rubric(id="x", description="d", weight=0, required=False),
    )
    assert (loaded.errors, loaded.warnings) == ([], [])
    assert (loaded.specs[0].kind, loaded.specs[0].rubrics) == ("llm_judge", rubrics)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ("type: llm_judge, model: gpt-5", "model: unknown key (the judge is the target's `judge_target`)"),
        (
            f"type: llm_judge, prompt: '{ANSWER}', rubrics: [Is polite]",
            "prompt: nobody reads this key "
            "(a judge with rubrics has a prompt of its own; split it into two evaluators)",
        ),
        (
            "type: code_judge, script: x, target: {max_cals: 1}",
            "target.max_cals: unknown key (did you mean 'max_calls'?)",
        ),
    ],
)
def test_a_key_of_a_judge_that_nobody_reads_is_an_error(settings: str, error: str) -> None:
    assert load(settings).errors == [f"qa.yaml:2: evaluators[0].{error}"]


@pytest.mark.parametrize("other", ["{id: x, description: e}", "{description: e}, Is polite"])
def test_two_rubrics_of_one_id_are_an_error(other: str) -> None:
    name = "x" if "id: x" in other else "rubric-3"
    loaded = load(f"type: rubric, rubrics: [{{id: {name}, description: d}}, {other}]")
    message = f"two rubrics have the id '{name}': the judge's checks are told apart by it"
    assert loaded.errors == [f"qa.yaml:2: evaluators[0].rubrics: {message}"]


def test_a_misspelt_key_of_a_rubric_is_an_error() -> None:
    loaded = load("type: rubric, rubrics: [{description: d, requird: true}]")
    assert loaded.errors == ["qa.yaml:2: evaluators[0].rubrics[0].requird: unknown key (did you mean 'required'?)"]


@pytest.mark.scenario("LLM judge may consume trace (opt-in)")
@pytest.mark.parametrize("key", ["include_trace", "includeTrace"])
def test_a_judge_may_ask_for_the_trace(key: str) -> None:
    assert config_of(f"type: llm_judge, {key}: true") == LlmJudge(include_trace=True)
