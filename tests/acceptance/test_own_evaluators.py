"""Kinds of evaluators as classes of the user's: in eval files, in Python, in `agentv validate`."""

import pytest
from thorough import varied

from pytest_agentv.cli.main import main

CONFTEST = '''
from typing import Annotated

from pydantic import Field
from rapidfuzz.distance import Levenshtein as Distance

from pytest_agentv.evaluators.base import Context, Evaluator, Score


class Alike(Evaluator):
    """The answer is nearly a text."""

    kind = "alike"

    value: str = Field(description="the text")
    least: Annotated[float, Field(ge=0, le=1)] = Field(default=0.5, description="least similarity")

    async def evaluate(self, context: Context) -> Score:
        similarity = Distance.normalized_similarity(context.candidate_answer, self.value)
        return Score(float(similarity >= self.least), details={"similarity": similarity})


def pytest_agentv_evaluators():
    return [Alike]
'''
TARGETS = """
targets:
  - {name: default, provider: mock, response: hello world, judge_target: judge}
  - {name: judge, provider: mock, response: "0.75"}
"""


@pytest.fixture
def own(project):
    project.write("conftest.py", CONFTEST)
    project.write("targets.yaml", TARGETS)
    return project


def suite(*evaluators):
    case = "  - id: a\n    expected_outcome: o\n    input: q\n    evaluators:\n"
    return "evalcases:\n" + case + "".join(f"      - {evaluator}\n" for evaluator in evaluators)


KIND = """
from pytest_agentv import Evaluator, Provider, Score
class Bare:
    kind = "bare"
class Nameless(Evaluator):
    async def evaluate(self, context): return Score(1.0)
class Silent(Evaluator):
    kind = "silent"
class Closed(Provider):
    kind = "closed"
class Good(Evaluator):
    kind = "good"
    async def evaluate(self, context): return Score(1.0)
class Wordless(Good):
    kind = None
"""


WANTED = (
    "expected a list of classes of Evaluator or Provider, each with its word as `kind`, "
    "or a mapping from words to classes or factories, got "
)
ALMOST_RIGHT = {
    "[Nameless]": f"{WANTED}[<class ",
    "[Silent]": "the class Silent has no `evaluate`: expected a method of that name",
    "[Closed]": "the class Closed has no `open`: expected a method of that name",
    "Good": f"{WANTED}<class ",
    "{'good': Good()}": f"{WANTED}Good(",
    "{'good': 5}": f"{WANTED}5 for the word 'good'",
    "{3: Good}": WANTED,
    "[Wordless]": WANTED,
    "[Bare]": f"{WANTED}[<class ",
    "5": f"{WANTED}5",
}


@pytest.mark.parametrize(("returned", "message"), ALMOST_RIGHT.items())
def test_a_hook_for_kinds_that_is_almost_right_says_what_it_lacks(own, returned, message):
    """Before the target is called: a class without its method was found only when the answer was there."""
    own.write("conftest.py", f"{KIND}\ndef pytest_agentv_evaluators():\n    return {returned}\n")
    own.write("a.eval.yaml", suite("{name: a, type: heuristic, hits: [hello]}"))
    result = own.run().by_id["a"]
    assert result["error"].startswith(f"pytest_agentv_evaluators: {message}")
    assert (result["error_detail"], result["attempts"]) == ({"stage": "setup", "kind": "config"}, 0)


def test_a_hook_for_kinds_that_raises_is_named_with_its_line(own):
    own.write("conftest.py", "def pytest_agentv_evaluators():\n    raise SystemExit('oops')\n")
    own.write("a.eval.yaml", suite("{name: a, type: heuristic, hits: [hello]}"))
    run = own.run()
    told = run.by_id["a"]["error"].split("\n")
    assert told == ["pytest_agentv_evaluators raised SystemExit: oops", "  conftest.py:2 in pytest_agentv_evaluators"]
    assert run.internals == []


JUDGING = """
from typing import ClassVar

from pytest_agentv import Evaluator, Score


class Brevity(Evaluator):
    kind = "brevity"
    longest: ClassVar[int] = 5

    async def evaluate(self, context):
        return Score(float(len(context.candidate_answer) <= self.longest))


def logged(method):
    async def inner(self, context):
        return await method(self, context)
    return inner
"""

KINDS = """
from typing import ClassVar

import judging


class Mine(judging.Brevity):
    kind = "mine"
    longest: ClassVar[int] = 50

    def summary(self):
        return "mine"


class Decorated(judging.Brevity):
    kind = "decorated"

    @judging.logged
    async def evaluate(self, context):
        return judging.Score(float(len(context.candidate_answer) < 50))


def pytest_agentv_evaluators():
    return [Mine, Decorated]
"""


def test_a_resumed_run_judges_anew_when_the_file_of_a_kind_may_have_changed(project):
    """Several conftest files share the name of their module: the file of a kind without a plain method is not known."""
    project.write("judging.py", JUDGING)
    project.write("conftest.py", KINDS)
    project.write("evals/conftest.py", "import pytest\n")
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    cases = [f"{{id: {kind}, criteria: o, input: q, assert: [{{type: {kind}}}]}}" for kind in ("mine", "decorated")]
    project.write("evals/a.eval.yaml", f"cases: [{', '.join(cases)}]\n")
    resume = f"--agentv-resume={project.path / 'out-1.jsonl'}"
    first, again = project.run(), project.run(resume)
    assert [run.outcomes for run in (first, again)] == [{"passed": 2, "warnings": 1}] * 2
    assert "decorated: the file of Decorated is not known, so nobody can tell whether it has changed" in first.text
    times = [{result["eval_id"]: result["timestamp"] for result in run.results} for run in (first, again)]
    assert times[0]["mine"] == times[1]["mine"]
    assert times[0]["decorated"] != times[1]["decorated"]
    project.write("conftest.py", KINDS.replace("50", "3"))


ODD = """
    from pytest_agentv import Evaluator, EvaluatorResult, Score

    class Composed(Evaluator):
        kind = "composed"
        member: dict
        deep: bool = False

        def evaluate(self, context):
            member = EvaluatorResult(**{"name": "b", "type": "b", "score": 1.0, "verdict": "pass"} | self.member)
            above = EvaluatorResult("above", "b", 1.0, evaluator_results=(member,))
            return Score(1.0, results=(above if self.deep else member,))

    def pytest_agentv_evaluators():
        return [Composed]
    """


@pytest.fixture
def paid(project):
    project.write("conftest.py", ODD)
    project.write("agent.py", "def ask(prompt):\n    return {'text': 'hello', 'cost_usd': 0.5}\n")
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agent.py:ask'}]\n")
    return project


def test_members_in_a_list_are_kept_by_a_resumed_run(paid):
    """They were written as their `repr`, and each resumed run paid for the answer again."""
    paid.write("conftest.py", ODD.replace("(above if self.deep else member,)", "[member]"))
    paid.write("a.eval.yaml", suite("{type: composed, member: {hits: [a]}}"))
    (result,) = paid.run().results
    assert result["evaluator_results"][0]["evaluator_results"][0]["hits"] == ["a"]
    assert "skipped" not in paid.run(f"--agentv-resume={paid.path / 'out-1.jsonl'}").text
    assert len((paid.path / "out-1.jsonl").read_text().splitlines()) == 1


def test_a_member_that_could_not_judge_makes_an_own_composite_an_error(paid):
    """It passed silently."""
    member = "{error: judge is down, error_kind: network}"
    paid.write(
        "a.eval.yaml",
        suite(f"{{type: composed, member: {member}}}")
        + suite(f"{{type: composed, deep: true, member: {member}}}").replace("evalcases:\n  - id: a", "  - id: b"),
    )
    for name, result in paid.run().by_id.items():
        assert result["error"] == "member 'b' could not judge: judge is down"
        assert result["error_detail"] == {"stage": "evaluator", "kind": "network"}
        assert result["evaluator_results"][0]["evaluator_results"][0]["name"] == ("b" if name == "a" else "above")


UNWRITABLE = """
    from pytest_agentv import EvaluatorError, Evaluator, EvaluatorResult, Score

    LOOP = {}
    LOOP["self"] = LOOP
    SCORES = {
        "details": Score(1.0, details={"a": 10**5000}),
        "request": Score(1.0, request=LOOP),
        "results": Score(1.0, results=(EvaluatorResult("m", "m", 1.0, details={"a": [10**5000]}),)),
    }

    class Odd(Evaluator):
        kind = "odd"

        def evaluate(self, context):
            if context.case.eval_id == "output":
                raise EvaluatorError("no", output=LOOP)
            return SCORES.get(context.case.eval_id) or Score(1.0)

    def pytest_agentv_evaluators():
        return [Odd]
    """


@pytest.mark.parametrize("mode", [(), varied(("-n", "2"))])
def test_a_judgement_that_cannot_be_written_is_an_error_of_its_case_only(paid, mode):
    paid.write("conftest.py", UNWRITABLE)
    names = ("fine", "details", "request", "results", "output", "last")
    case = "{{id: {}, expected_outcome: o, input: q, evaluators: [{{type: odd}}]}}"
    paid.write("a.eval.yaml", f"evalcases: [{', '.join(case.format(name) for name in names)}]")
    run = paid.run(*mode)
    assert {name: run.by_id[name]["status"] for name in names} == {
        **dict.fromkeys(names, "error"),
        "fine": "pass",
        "last": "pass",
    }
    assert {result["execution_metrics"]["cost_usd"] for result in run.results} == {0.5}
    errors = {name: run.by_id[name]["error"] for name in names[1:-2]}
    assert {name: error.partition(": ")[2] for name, error in errors.items()} == {
        "details": "its `details` hold a whole number of more than 4300 digits",
        "request": "its `request` are nested more than 100 levels deep",
        "results": "the `details` of its member 'm' hold a whole number of more than 4300 digits",
    }


GREEDY = """
    from pytest_agentv import Evaluator, Score

    class Greedy(Evaluator):
        kind = "greedy"

        def evaluate(self, context):
            for call in context.output_messages[0].tool_calls:
                call.input.clear()
            for event in context.trace:
                event.input["limits"].append(9)
            context.case.vars["order"] = "changed"
            context.case.expected_messages[0]["content"] = "changed"
            context.metrics.tool_durations.clear()
            return Score(1.0)

    def pytest_agentv_evaluators():
        return [Greedy]
    """
CALL = {"tool": "search", "input": {"query": "tents", "limits": [5]}, "duration_ms": 4}
MESSAGE = {"role": "assistant", "content": "hello", "tool_calls": [CALL]}


def test_a_kind_that_changes_what_it_is_shown_changes_it_for_nobody_else(project):
    project.write("conftest.py", GREEDY)
    project.write("agent.py", f"def ask(prompt):\n    return {{'output_messages': [{MESSAGE}]}}\n")
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agent.py:ask'}]\n")
    asked = "{tool-called: search, args: {query: tents, limits: [5]}}"
    expressions = (
        "case.vars == {'order': 7}",
        "case.expected_messages[0]['content'] == 'ok'",
        "bool(metrics.tool_durations)",
    )
    checks = ", ".join([asked, *(f'{{python: "{each}"}}' for each in expressions)])
    project.write(
        "a.eval.yaml",
        "evalcases:\n  - {id: a, input: q, vars: {order: 7}, expected_output: ok, "
        f"evaluators: [{{type: greedy}}, {{type: greedy}}, {checks}]}}\n",
    )
    (result,) = project.run("--agentv-include-trace").results
    assert [each["verdict"] for each in result["evaluator_results"]] == ["pass"] * 6
    assert result["output_messages"][0]["tool_calls"] == [CALL]
    assert result["trace"][0]["input"] == CALL["input"]


NOSY = """
    from pytest_agentv import Evaluator, Score

    class Nosy(Evaluator):
        kind = "nosy"
        words: list[str] = ["hello"]

        def prepare(self, services):
            assert "CHANGED" not in services.environment
            services.environment["CHANGED"] = "1"
            self._change(services.case)

        def evaluate(self, context):
            assert "CHANGED" not in context.services.environment
            self._change(context.case)
            self._change(context.services.case)
            return Score(1.0)

        def _change(self, case):
            assert case.vars["order"] == 7
            case.vars["order"] = 8

    class Made:
        def __init__(self, spec, services):
            self.words = list(spec.config["words"])
            spec.config["words"].clear()

        def evaluate(self, context):
            return Score(float(self.words == ["hello"]))

    def pytest_agentv_evaluators():
        return {"nosy": Nosy, "made": Made}
    """


def test_a_kind_that_changes_cases_and_services_changes_them_for_no_other_case(project):
    project.write("conftest.py", NOSY)
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    checks = "{type: nosy, words: [hello]}, {type: made, words: [hello]}, {python: 'vars[\"order\"] == 7'}"
    cases = "".join(f"  - {{id: c{number}, input: hi, vars: {{order: 7}}}}\n" for number in range(3))
    project.write("a.eval.yaml", f"evaluators: [{checks}]\nevalcases:\n{cases}")
    run = project.run()
    assert [[each["score"] for each in result["evaluator_results"]] for result in run.results] == [[1, 1, 1]] * 3


PREPARING = """
    from pytest_agentv import Context, Evaluator, EvaluatorError, Score, Services

    class Checked(Evaluator):
        kind = "checked"
        longest: int

        def prepare(self, services: Services) -> None:
            if self.longest < 1:
                raise EvaluatorError("longest must be positive", kind="config")

        def evaluate(self, context: Context) -> Score:
            return Score(float(len(context.candidate_answer) <= self.longest))

    class Late(Checked):
        kind = "late"

        async def prepare(self, services: Services) -> Evaluator:
            return self

    class Odd(Checked):
        kind = "odd"

        def prepare(self, services: Services):
            return {"longest": 5}

    def pytest_agentv_evaluators():
        return {"checked": Checked, "late": Late, "odd": Odd, "blank": lambda spec, services: None}
    """


def test_a_kind_may_only_check_before_the_call_and_what_else_it_returns_is_told_before_it(paid):
    paid.write("conftest.py", PREPARING)
    paid.write("agent.py", "def ask(prompt):\n    open('calls', 'a').write(prompt)\n    return 'hello'\n")
    checks = {
        "fine": "{type: checked, longest: 5}",
        "member": "{type: composite, aggregator: {type: weighted_average}, evaluators: [{type: checked, longest: 5}]}",
        "wrong": "{type: checked, longest: 0}",
        "late": "{type: composite, aggregator: {type: weighted_average}, evaluators: [{type: late, longest: 5}]}",
        "odd": "{type: odd, longest: 5}",
        "blank": "{type: blank}",
    }
    case = "{{id: {0}, expected_outcome: o, input: {0}., evaluators: [{1}]}}"
    paid.write("a.eval.yaml", f"evalcases: [{', '.join(case.format(*each) for each in checks.items())}]")
    run = paid.run("-p", "no:asyncio")
    assert {name: run.by_id[name].get("error") for name in checks} == {
        "fine": None,
        "member": None,
        "wrong": "longest must be positive",
        "late": "prepare() of 'late' returned coroutine, expected an Evaluator or None",
        "odd": "prepare() of 'odd' returned dict, expected an Evaluator or None",
        "blank": "the factory of 'blank' returned a value of type NoneType, expected an object with `evaluate`",
    }
    assert sorted((paid.path / "calls").read_text().strip(".").split(".")) == ["fine", "member"], "nothing else is paid"


MEMBERS = """
    from pytest_agentv import Evaluator, Score

    def broken(self):
        raise RuntimeError("mine")

    class Odd(Evaluator):
        kind = "odd"
        def evaluate(self, context): return Score(1.0)

    KINDS = {
        "label": property(lambda self: 5),
        "method": lambda self: "a method",
        "summary": lambda self: None,
        "weight": property(lambda self: float("nan")),
        "asks_judge": property(broken),
        "embeds_with": property(lambda self: 5),
        "scripts": property(lambda self: ["a.py"]),
        "required_score": lambda self, threshold: "x",
        "walk": lambda self: None,
        "keys_of": classmethod(lambda cls, value: 5),
        "doubts": lambda self, case: 5,
        "prepare": lambda self, services: KINDS["label"](),
    }

    def kind(name, member):
        return type("Odd", (Odd,), {"kind": name, "label" if name == "method" else name: member})

    KINDS = {name: kind(name, member) for name, member in KINDS.items()}

    def pytest_agentv_evaluators():
        return list(KINDS.values())
    """
AMOUNTS = "Odd: expected a text of summary(), and amounts as `weight` and of required_score()"
MEMBER_FAULTS = {
    "label": "`label` of Odd is of type int, expected str",
    "method": "`label` of Odd is of type method, expected str",
    "summary": AMOUNTS,
    "weight": "`weight` of Odd is of type property, expected int | float",
    "asks_judge": "a member of Odd raised RuntimeError: mine",
    "embeds_with": "`embeds_with` of Odd is of type int, expected str | None",
    "scripts": "a member of Odd raised ValueError: too many values to unpack (expected 2)",
    "required_score": AMOUNTS,
    "walk": "a member of Odd raised TypeError: 'NoneType' object is not iterable",
}


def test_a_member_of_a_wrong_type_is_an_error_of_its_case_also_in_validate(own, monkeypatch, capsys):
    own.write("conftest.py", MEMBERS)
    names = [*MEMBER_FAULTS, "keys_of", "doubts", "prepare"]
    case = "  - {{id: {0}, expected_outcome: o, input: q, evaluators: [{{{0}: {{}}}}]}}\n"
    fine = "  - {id: fine, expected_outcome: o, input: q, evaluators: [{contains: hello}]}\n"
    own.write("a.eval.yaml", "evalcases:\n" + "".join(map(case.format, names)) + fine)
    run = own.run("--junitxml=junit.xml", "--agentv-html=run.html")
    assert run.internals == []
    errors = {name: result.get("error") for name, result in run.by_id.items()}
    assert {name: errors[name].partition("evaluators[0]: ")[2] for name in MEMBER_FAULTS} == MEMBER_FAULTS
    assert errors["keys_of"] == "the case cannot be loaded: TypeError: 'int' object is not iterable"
    assert errors["prepare"] == MEMBER_FAULTS["label"]
    assert (errors["doubts"], errors["fine"]) == (None, None)
    monkeypatch.chdir(own.path)
    assert main(["validate", "."]) == 1
    told = capsys.readouterr().out
    assert [fault for fault in MEMBER_FAULTS.values() if f"evaluators[0]: {fault}" not in told] == []
    assert "a.eval.yaml:11: error: the case cannot be loaded: TypeError: 'int' object is not iterable" in told
    assert "a.eval.yaml:12: warning: doubts: evaluator 'doubts': doubts() raised TypeError: " in told


def test_a_changed_function_of_a_check_is_judged_again_on_resume(own):
    own.write("checks.py", "def is_short(answer):\n    return len(answer) < 100\n")
    own.write("a.eval.yaml", suite("{python: 'checks.py:is_short'}"))
    resume = f"--agentv-resume={own.path / 'out-1.jsonl'}"
    first, again = (own.run(*flags).by_id["a"]["timestamp"] for flags in ((), (resume,)))
    assert first == again
    own.write("checks.py", "def is_short(answer):\n    return len(answer) < 5\n")
    changed = own.run(resume, subprocess=True)  # this process keeps the module
    assert (changed.exit_code, changed.by_id["a"]["timestamp"] != first) == (1, True)
