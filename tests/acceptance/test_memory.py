"""What a finished case held is released; what cases share is held once."""

from .conftest import Project

MEGABYTE = 2**20
MEASURE = """
import gc, pathlib
def pytest_runtest_logfinish(nodeid):
    gc.collect()
    pages = int(pathlib.Path('/proc/self/statm').read_text().split()[1])
    with open('memory.txt', 'a') as file:
        file.write(f'{pages * 4096}\\n')
"""


def test_a_run_needs_no_more_for_many_cases_with_a_large_file_than_for_few(project: Project) -> None:
    project.write("conftest.py", MEASURE)
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("large.txt", ("y" * 79 + "\n") * (5 * MEGABYTE // 80))
    content = "[{type: text, value: Say hello}, {type: file, value: large.txt}]"
    project.write(
        "x.eval.yaml",
        "evalcases:\n"
        + "".join(
            f"  - {{id: c{number}, expected_outcome: x, input_messages: [{{role: user, content: {content}}}],"
            " evaluators: [{name: words, type: heuristic, hits: [hello]}]}\n"
            for number in range(9)
        ),
    )

    run = project.run("--agentv-workers=1", subprocess=True)

    assert run.outcomes == {"passed": 9}
    assert len(run.by_id["c8"]["lm_provider_request"]["question"]) > 5_000_000
    used = [int(line) for line in (project.path / "memory.txt").read_text().split()]
    # What the allocator returns varies by 15 MB from case to case. Kept, each of the last four would add 5 MB.
    assert (max(used[5:]) - max(used[:5])) / MEGABYTE < 12, used


def test_cases_with_the_same_file_hold_its_text_once(project: Project) -> None:
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("shared.txt", "the shared text\n")
    project.write("other/shared.txt", "another text\n")
    project.write(
        "conftest.py",
        "import pathlib\ncases = []\n"
        "def pytest_agentv_case(case):\n"
        "    cases.append(case)  # keeps it alive, as a case in flight is\n"
        "def pytest_sessionfinish():\n"
        "    texts = [case.messages[0].parts[0].text for case in cases]\n"
        "    assert len(texts) == 4\n"
        "    assert len({id(text) for text in texts if text == 'the shared text\\n'}) == 1\n"
        "    pathlib.Path('ids.txt').write_text(str(len({id(text) for text in texts})))\n",
    )
    files = ("shared.txt", "shared.txt", "other/shared.txt", "shared.txt")
    project.write(
        "x.eval.yaml",
        "evalcases:\n"
        + "".join(
            f"  - {{id: c{number}, expected_outcome: x, evaluators: [{{name: words, type: heuristic, hits: [hello]}}],"
            f" input_messages: [{{role: user, content: [{{type: file, value: {file}}}]}}]}}\n"
            for number, file in enumerate(files)
        ),
    )

    assert project.run("--agentv-workers=4").outcomes == {"passed": 4}
    assert (project.path / "ids.txt").read_text() == "2"
