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


def test_marks_that_a_conftest_adds_hold(project, suite):
    project.write("qa.eval.yaml", suite(skipped="hello", expected="nothing", fine="hello", strict="hello"))
    project.write(
        "conftest.py",
        """
        import pytest

        def pytest_collection_modifyitems(items):
            marks = {
                "skipped": pytest.mark.skip(reason="not today"),
                "expected": pytest.mark.xfail(reason="known"),
                "strict": pytest.mark.xfail(strict=True),
            }
            for item in items:
                if item.name in marks:
                    item.add_marker(marks[item.name])
        """,
    )
    run = project.run("qa.eval.yaml", "-rxs")
    assert run.outcomes == {"skipped": 1, "xfailed": 1, "passed": 1, "failed": 1}
    assert calls(project) == ["expected", "fine", "strict"]
    assert "XFAIL qa.eval.yaml::expected - known" in run.text
    assert "[XPASS(strict)]" in run.text


def test_items_have_what_conftest_files_and_ides_read_from_items(project):
    project.write(
        "conftest.py",
        """
        def pytest_collection_modifyitems(items):
            for item in items:
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
                    print("seen:", line + 1, item.nodeid)
        """,
    )
    run = project.run("-s")
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert [line for line in run.lines if "seen: " in line] == ["seen: 2 qa.eval.yaml::a", "seen: 6 qa.eval.yaml::b"]


def test_there_is_one_report_of_each_phase_for_each_case(project):
    project.write(
        "conftest.py",
        "def pytest_runtest_logreport(report): print('seen:', report.head_line, report.when, report.outcome)\n",
    )
    run = project.run("-s", "-q", "qa.eval.yaml")
    assert [line.partition("seen: ")[2] for line in run.lines if "seen: " in line] == [
        "a setup passed",
        "a call passed",
        "a teardown passed",
        "b setup passed",
        "b call failed",
        "b teardown passed",
    ]


def test_an_error_is_reported_at_set_up_and_nothing_is_called(project, suite):
    project.write("qa.eval.yaml", suite(broken="hello").replace("content: Say", "value: Say"))
    project.write(
        "conftest.py",
        "def pytest_runtest_logreport(report): print('seen:', report.head_line, report.when, report.outcome)\n",
    )
    run = project.run("-s", "-q", "qa.eval.yaml")
    assert [line.partition("seen: ")[2] for line in run.lines if "seen: " in line] == [
        "broken setup failed",
        "broken teardown passed",
    ]


def test_plugins_that_call_test_functions_are_not_asked_to_call_cases(project):
    project.write(
        "conftest.py",
        """
        def pytest_pyfunc_call(pyfuncitem):
            print("called:", pyfuncitem.name)

        def pytest_generate_tests(metafunc):
            print("generated:", metafunc.function.__name__)
        """,
    )
    run = project.run("-s")
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert [line.partition("called: ")[2] for line in run.lines if "called: " in line] == ["test_one"]
    assert [line.partition("generated: ")[2] for line in run.lines if "generated: " in line] == ["test_one"]


def test_a_parametrized_autouse_fixture_is_the_readable_error_of_the_cases_in_its_reach(project):
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture(autouse=True, params=[1, 2])
        def number(request):
            return request.param
        """,
    )
    run = project.run()
    assert run.outcomes == {"passed": 2, "errors": 2}
    fault = "fixture 'number' (conftest.py:3) has params, and only tests in Python can be parametrized"
    assert fault in run.text
    assert "The requested fixture" not in run.text
    assert [result["error_detail"] for result in run.results] == [{"stage": "setup", "kind": "config"}] * 2
    assert all(result["error"].startswith(fault) for result in run.results)
    assert "pytest_agentv/" not in run.text
    assert calls(project) == []


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


def test_a_yaml_item_of_another_plugin_that_kills_its_worker_is_no_case(project):
    (project.path / "qa.eval.yaml").unlink()
    project.write("conftest.py", OTHER_YAML)
    project.write("evals/a.check.yaml", "cases: none\n")
    project.write("a.check.yaml", "steps: []\n")
    run = project.run("-n1", "--dist=load")
    assert run.outcomes["failed"] == 2
    assert run.results == []
    assert not (project.path / ".agentv").exists()
    assert "EVALUATION SUMMARY" not in run.text


def test_cases_beside_a_yaml_item_of_another_plugin_that_kills_its_worker_are_recorded(project):
    project.write("conftest.py", OTHER_YAML)
    project.write("zz.check.yaml", "steps: []\n")
    run = project.run("-n1", "--dist=load")
    assert run.outcomes == {"passed": 3, "failed": 2}
    assert run.statuses == {"a": "pass", "b": "fail"}


@pytest.mark.parametrize("flags", [(), ("--agentv-workers=2",), ("--reruns=1",)])
def test_properties_that_others_give_items_are_kept(project, flags):
    project.write(
        "conftest.py",
        """
        def pytest_collection_modifyitems(items):
            for item in items:
                item.user_properties.append(("ticket", item.name))
                item.user_properties.append(("agentv_owner", "me"))

        def pytest_runtest_logreport(report):
            if report.when == "teardown":
                names = [name for name, _ in report.user_properties]
                assert names.count("ticket") == names.count("agentv_owner") == 1, names
                if ".yaml" in report.nodeid:
                    assert names.count("agentv_status") == names.count("agentv_line") == 1, names
                    assert dict(report.user_properties)["ticket"] == report.nodeid.rpartition(":")[2]
        """,
    )
    run = project.run(*flags)
    assert {key: run.outcomes[key] for key in ("passed", "failed")} == {"passed": 2, "failed": 1}
    assert run.internals == []
