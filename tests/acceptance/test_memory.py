"""What a finished case held is released."""

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
