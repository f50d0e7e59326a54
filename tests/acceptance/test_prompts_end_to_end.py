"""From the messages of a case to what its target is asked: files, guidelines, conversations, datasets, older words."""

import json
import re

import pytest

ECHO = """
targets:
  - {name: default, provider: python, callable: agent.py:echo}
  - {name: command, provider: cli, command_template: "printf '%s|%s|%s' {PROMPT} {GUIDELINES} {FILES}"}
"""

PASSES = "evaluators: [{name: fast, type: latency, threshold: 60000}]"


@pytest.fixture
def echo(project):
    """Return what runs cases on targets that answer with what they were asked, and returns the results by id."""
    project.write("targets.yaml", ECHO)
    project.write("agent.py", "def echo(prompt):\n    return prompt\n")

    def run(text, *flags, path="evals/a.eval.yaml", **options):
        project.write(path, text)
        finished = project.run(*flags, **options)
        assert finished.exit_code == 0, finished.text
        return finished.by_id

    return run


def case(content, eval_id="a"):
    return (
        f"evalcases:\n  - id: {eval_id}\n    expected_outcome: o\n    {PASSES}\n"
        f"    input_messages: [{{role: user, content: {json.dumps(content)}}}]\n"
    )


def file(value):
    return {"type": "file", "value": value}


def text(value):
    return {"type": "text", "value": value}


@pytest.mark.scenario("Validate file reference resolution")
def test_files_are_embedded_for_models_and_referred_to_for_agents(echo, project):
    project.write("evals/a.py", "print(1)\n")
    project.write("docs/spec.txt", "DOC\n")
    project.write("evals/rules.instructions.md", "Rule A\r\nRule B\n\n")
    content = [text("  Review this.  "), file("rules.instructions.md"), file("a.py"), file("/docs/spec.txt"), text(" ")]
    (project.path / ".git").mkdir()
    asked = echo(case(content))["a"]["lm_provider_request"]
    question = 'Review this.\n\n<file path="a.py">\nprint(1)\n</file>\n\n<file path="docs/spec.txt">\nDOC\n</file>'
    guidelines = '<file path="rules.instructions.md">\nRule A\nRule B\n</file>'
    assert asked == {"question": question, "guidelines": guidelines}

    told = echo(case(content), "--agentv-target=command")["a"]["candidate_answer"]
    paths = [str(project.path / path) for path in ("evals/rules.instructions.md", "evals/a.py", "docs/spec.txt")]
    referred = 'Review this.\n\n<file: path="a.py">\n\n<file: path="docs/spec.txt">'
    # printf starts its format anew for what is left: the second and the third path.
    assert told == f"{referred}|{guidelines}|{paths[0]}{paths[1]}|{paths[2]}|"


@pytest.mark.scenario("Use defaults when config absent")
def test_without_a_config_the_four_usual_patterns_tell_guidelines(echo, project):
    guidelines = (
        *("x.instructions.md", "deep/er/x.instructions.md", "instructions/x.txt", "deep/instructions/er/x.txt"),
        *("x.prompt.md", "deep/prompts/x.md"),
    )
    others = ("x.md", "instructions.md")
    rules = {path: f"RULE {number}" for number, path in enumerate((*guidelines, *others))}
    for path, rule in rules.items():
        project.write(f"evals/{path}", rule)
    asked = echo(case([*map(file, rules), text("ask")]))["a"]["lm_provider_request"]
    for path, rule in rules.items():
        assert (rule in asked["guidelines"]) is (path in guidelines), path
        assert (rule in asked["question"]) is (path in others), path


@pytest.mark.scenario("Load custom guideline patterns")
@pytest.mark.scenario("Match files with glob patterns")
@pytest.mark.parametrize("config", ["evals/.agentv.yaml", "evals/.agentv/config.yaml", ".agentv/config.yaml"])
def test_patterns_of_a_config_replace_the_usual_ones(echo, project, config):
    (project.path / ".git").mkdir()
    project.write(config, "guideline_patterns: ['**/*.rules.txt', 'evals/house/**']\n")
    for path in ("a.rules.txt", "house/b.md", "c.instructions.md"):
        project.write(f"evals/{path}", f"text of {path}")
    content = [file("a.rules.txt"), file("house/b.md"), file("c.instructions.md"), text("ask")]
    asked = echo(case(content))["a"]["lm_provider_request"]
    assert "text of a.rules.txt" in asked["guidelines"]
    assert "text of house/b.md" in asked["guidelines"]
    assert asked["question"] == '<file path="c.instructions.md">\ntext of c.instructions.md\n</file>\n\nask'


@pytest.mark.scenario("Load custom guideline patterns")
def test_the_config_beside_the_eval_file_comes_before_that_of_the_repository(echo, project):
    (project.path / ".git").mkdir()
    project.write(".agentv/config.yaml", "guideline_patterns: ['**/far.md']\n")
    project.write("evals/.agentv.yaml", "guideline_patterns: ['**/near.md']\n")
    for name in ("far.md", "near.md"):
        project.write(f"evals/{name}", name.upper())
    asked = echo(case([file("far.md"), file("near.md")]))["a"]["lm_provider_request"]
    assert "NEAR.MD" in asked["guidelines"]
    assert "FAR.MD" not in asked["guidelines"]


TALK = """
evalcases:
  - id: talk
    conversation_id: c-1
    expected_outcome: answers the last question
    evaluators: [{name: words, type: heuristic, hits: [Q2]}]
    input_messages:
      - {role: system, content: SYS}
      - role: user
        content: [{type: file, value: /spec.txt}, {type: file, value: rules.instructions.md}, {type: text, value: Q1}]
      - {role: assistant, content: A1}
      - {role: tool, content: {result: 3}}
      - {role: system, content: late}
      - {role: user, content: "   "}
      - {role: user, content: Q2}
"""


@pytest.mark.scenario("Multi-turn conversation handling")
def test_a_conversation_keeps_its_turns_in_order_with_who_said_what(echo, project):
    project.write("evals/spec.txt", "DOC\n")
    project.write("evals/rules.instructions.md", "Rule\n")
    result = echo(TALK)["talk"]
    guidelines = '<file path="rules.instructions.md">\nRule\n</file>'
    document = '<file path="spec.txt">\nDOC\n</file>'
    assert result["candidate_answer"] == (
        f"{guidelines}\n\n@[System]:\nSYS\n\n@[User]:\n{document}\n<Attached: rules.instructions.md>\nQ1\n\n"
        '@[Assistant]:\nA1\n\n@[Tool]:\n{\n  "result": 3\n}\n\n@[System]:\nlate\n\n@[User]:\nQ2'
    )
    assert result["lm_provider_request"] == {
        "chat_prompt": [
            {"role": "system", "content": f"[[ ## Guidelines ## ]]\n\n{guidelines}\n\nSYS"},
            {"role": "user", "content": f"{document}\nQ1"},
            {"role": "assistant", "content": "A1"},
            {"role": "assistant", "content": '@[Tool]:\n{\n  "result": 3\n}'},
            {"role": "assistant", "content": "@[System]:\nlate"},
            {"role": "user", "content": "Q2"},
        ]
    }
    assert (result["conversation_id"], result["status"], result["attempts"]) == ("c-1", "pass", 1)


def line(eval_id, **keys):
    return json.dumps(
        {"id": eval_id, "expected_outcome": "o", "input_messages": [{"role": "user", "content": f"ask {eval_id}"}]}
        | keys
    )


SIDECAR = """
description: what holds for all lines
dataset: questions
threshold: 0.4
execution:
  target: loud
  evaluators: [{name: words, type: heuristic, hits: [ask, nowhere]}]
"""


@pytest.mark.parametrize("sidecar", ["data.eval.yaml", "data.eval.yml"])
def test_a_dataset_has_a_case_a_line_and_a_sidecar_for_what_holds_for_all(project, sidecar):
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: ask quietly}
          - {name: loud, provider: mock, response: ASK}
        """,
    )
    own = {
        "execution": {"target": "default"},
        "evaluators": [{"name": "own", "type": "heuristic", "hits": ["quietly"]}],
    }
    project.write("data.eval.jsonl", f"{line('one')}\n\n{line('two', **own)}\n{line('three', threshold=0.9)}\n")
    project.write(sidecar, SIDECAR)
    run = project.run()
    facts = {
        eval_id: (result["target"], result["score"], result["status"], result["line"])
        for eval_id, result in run.by_id.items()
    }
    assert facts == {
        "one": ("loud", 0.5, "pass", 1),
        "two": ("default", 1, "pass", 3),
        "three": ("loud", 0.5, "fail", 4),
    }
    assert {result["dataset"] for result in run.results} == {"questions"}
    assert run.by_id["three"]["node_id"] == "data.eval.jsonl::three"


def test_files_of_a_dataset_are_found_beside_it_and_without_a_sidecar_it_is_named_after_itself(echo, project):
    project.write("evals/notes.txt", "NOTE")
    asked = [{"role": "user", "content": [file("notes.txt")]}]
    evaluators = [{"name": "fast", "type": "latency", "threshold": 60000}]
    text = line("one", input_messages=asked, evaluators=evaluators) + "\n"
    result = echo(text, path="evals/data.jsonl")["one"]
    assert result["candidate_answer"] == '<file path="notes.txt">\nNOTE\n</file>'
    assert result["dataset"] == "data"


WORDS = [
    *[("evalcases", key) for key in ("evalcases", "eval_cases", "cases", "tests")],
    *[("expected_outcome", key) for key in ("outcome", "criteria")],
    ("input_messages", "input"),
    ("expected_messages", "expected_output"),
    *[("evaluators", key) for key in ("assertions", "assert")],
]


@pytest.mark.parametrize(("canonical", "written"), WORDS)
def test_older_and_newer_words_for_the_same_thing_are_understood(project, canonical, written):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("spy.py", "import sys; open('given.json', 'w').write(sys.stdin.read()); print('{\"score\": 1}')\n")
    suite = """
evalcases:
  - id: a
    expected_outcome: is polite
    input_messages: [{role: user, content: greet me}]
    expected_messages: [{role: assistant, content: good day}]
    evaluators: [{name: spy, type: code_judge, script: spy.py}]
"""
    project.write("a.eval.yaml", suite.replace(f"{canonical}:", f"{written}:"))
    run = project.run("--agentv-strict")
    assert run.statuses == {"a": "pass"}
    given = json.loads((project.path / "given.json").read_text("utf-8"))
    assert given["expected_outcome"] == "is polite"
    assert given["question"] == "greet me"
    assert given["reference_answer"] == "good day"
    assert given["expected_messages"] == [{"role": "assistant", "content": "good day"}]
    assert [found["name"] for found in run.by_id["a"]["evaluator_results"]] == ["spy"]


def test_texts_and_data_stand_for_messages_in_the_newer_words(echo):
    keys = f"criteria: o\n    input: What is it?\n    expected_output: {{answer: 42}}\n    {PASSES}"
    result = echo(f"tests:\n  - id: a\n    {keys}\n")["a"]
    assert result["candidate_answer"] == "What is it?"


@pytest.mark.parametrize("written", ["execution: {evaluators: [EVALUATOR]}", "evaluators: [EVALUATOR]"])
def test_a_case_without_evaluators_takes_those_of_its_file_even_if_it_has_an_execution_map(project, written):
    project.write("targets.yaml", "targets: [{name: other, provider: mock, response: hello}]\n")
    head = written.replace("EVALUATOR", "{name: of-file, type: heuristic, hits: [hello]}")
    project.write("a.eval.yaml", f"{head}\n{case('q')}".replace(PASSES, "execution: {target: other}"))
    (result,) = project.run().results
    assert [found["name"] for found in result["evaluator_results"]] == ["of-file"]


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_a_run_warns_once_of_guidelines_that_a_command_does_not_get(project, mode):
    project.write(
        "targets.yaml", f"{ECHO}  - {{name: short, provider: cli, command_template: 'printf %s {{PROMPT}}'}}\n"
    )
    project.write("rules.prompt.md", "RULE")
    content = [file("rules.prompt.md"), text("ask")]
    cases = [case(content, f"c{number}").removeprefix("evalcases:\n") for number in range(4)]
    project.write("a.eval.yaml", f"evalcases:\n{''.join(cases)}")
    run = project.run("--agentv-target=short", mode=mode)
    assert run.exit_code == 0
    (warning,) = [line.partition("AgentvWarning: ")[2] for line in run.lines if "AgentvWarning: " in line]
    assert re.match(
        r"a\.eval\.yaml:\d+: c\d: target 'short' does not get the guideline 'rules.prompt.md' \(write {GUID", warning
    )
    assert "AgentvWarning" not in project.run("--agentv-target=short", "--agentv-dry-run", mode=mode).text
    assert "AgentvWarning" not in project.run("--agentv-target=command", mode=mode).text
