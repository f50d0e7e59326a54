"""Eval cases under the eyes of conftest files, plugins and IDEs."""

import pytest

TARGETS = """
targets:
  - name: default
    provider: cli
    command_template: echo {EVAL_ID} >> calls.txt; echo hello world
"""


@pytest.fixture
def project(project, suite):
    project.write("targets.yaml", TARGETS)
    project.write("qa.eval.yaml", suite(a="hello", b="nothing"))
    project.write("test_python.py", "def test_one(): ...\n")
    return project


def calls(project):
    path = project.path / "calls.txt"
    return path.read_text().split() if path.exists() else []


CONFTEST = """
import pytest

MARKS = {
    "skipped": pytest.mark.skip(reason="not today"),
    "expected": pytest.mark.xfail(reason="known"),
    "strict": pytest.mark.xfail(strict=True),
}

def pytest_collection_modifyitems(items):
    for item in items:
        item.user_properties.append(("ticket", item.name))
        item.user_properties.append(("agentv_owner", "me"))
        if item.path.suffix == ".yaml":
            path, line, name = item.reportinfo()
            assert not hasattr(item, "callspec")
            assert (type(item.name), type(item.nodeid), type(line), type(name)) == (str, str, int, str)
            assert (path, name) == (item.path, item.name)
            assert item.location == ("qa.eval.yaml", line, item.name)
            assert item.parent.path == item.path
            assert item.cls is None and item.instance is None
            assert item.module.__file__ == str(item.path)
            assert callable(item.function) and callable(item.obj)
            assert item.originalname and item.fixturenames == [] and item.own_markers == []
            assert item.listextrakeywords() is not None and str(item) == f"<EvalItem {item.name}>"
            print("place:", line + 1, item.nodeid)
        if item.name in MARKS:
            item.add_marker(MARKS[item.name])

def pytest_runtest_logreport(report):
    print("report:", report.head_line, report.when, report.outcome)
    if report.when == "teardown":
        names = [name for name, _ in report.user_properties]
        assert names.count("ticket") == names.count("agentv_owner") == 1, names
        if ".yaml" in report.nodeid and not report.nodeid.endswith("skipped"):
            assert names.count("agentv_status") == names.count("agentv_line") == 1, names
            assert dict(report.user_properties)["ticket"] == report.nodeid.rpartition(":")[2]

def pytest_pyfunc_call(pyfuncitem):
    print("called:", pyfuncitem.name)

def pytest_generate_tests(metafunc):
    print("generated:", metafunc.function.__name__)
"""


@pytest.mark.parametrize("flags", [(), ("--agentv-workers=2",), ("--reruns=1",)])
def test_conftest_files_read_and_mark_items_and_see_each_phase_of_them(project, suite, flags):
    project.write("conftest.py", CONFTEST)
    ids = dict.fromkeys(("skipped", "expected", "fine", "strict", "bad", "broken"), "hello")
    head, _, tail = suite(**ids | dict.fromkeys(("expected", "bad"), "nothing")).rpartition("content: Say")
    project.write("qa.eval.yaml", f"{head}value: Say{tail}")
    run = project.run("-s", "-rxs", *flags)
    assert run.internals == []
    assert "XFAIL qa.eval.yaml::expected - known" in run.text
    assert "[XPASS(strict)]" in run.text
    if flags != ("--reruns=1",):
        assert run.outcomes == {"passed": 2, "failed": 2, "skipped": 1, "xfailed": 1, "errors": 1}
        assert sorted(calls(project)) == ["bad", "expected", "fine", "strict"]
        assert told(run, "place: ")[:2] == ["2 qa.eval.yaml::skipped", "6 qa.eval.yaml::expected"]
        assert told(run, "called: ") == told(run, "generated: ") == ["test_one"]
        assert told(run, "report: ") == [
            *("skipped setup skipped", "skipped teardown passed"),
            *(f"expected {when}" for when in ("setup passed", "call skipped", "teardown passed")),
            *(f"fine {when}" for when in ("setup passed", "call passed", "teardown passed")),
            *(f"strict {when}" for when in ("setup passed", "call failed", "teardown passed")),
            *(f"bad {when}" for when in ("setup passed", "call failed", "teardown passed")),
            *("broken setup failed", "broken teardown passed"),
            *(f"test_one {when}" for when in ("setup passed", "call passed", "teardown passed")),
        ]


def told(run, word):
    return [line.partition(word)[2] for line in run.lines if word in line]


OTHER_YAML = """
import os, pytest

def pytest_collect_file(parent, file_path):
    if file_path.name.endswith(".check.yaml"):
        return Checks.from_parent(parent, path=file_path)

class Checks(pytest.File):
    def collect(self):
        yield Check.from_parent(self, name="dies")
        yield Check.from_parent(self, name="lives")

class Check(pytest.Item):
    def runtest(self):
        if self.name == "dies":
            os._exit(3)
"""


@pytest.mark.kills
def test_a_yaml_item_of_another_plugin_that_kills_its_worker_is_no_case(project):
    project.write("conftest.py", OTHER_YAML)
    project.write("zz.check.yaml", "steps: []\n")
    run = project.run("-n1", "--dist=load")
    assert run.outcomes == {"passed": 3, "failed": 2}
    assert run.statuses == {"a": "pass", "b": "fail"}
    project.write("evals/a.check.yaml", "cases: none\n")
    run = project.run("-n1", "--dist=load", "evals", "zz.check.yaml")
    assert (run.outcomes["failed"], run.results) == (2, [])
    assert not (project.path / ".agentv/results").exists()
    assert "EVALUATION SUMMARY" not in run.text
