"""Fixtures that plug in an object of the user's own: `agentv_provider` and `agentv_judge`, overridden in a conftest."""


def test_a_session_object_is_asked_by_many_cases_at_once(project, suite):
    """Each of five calls waits for the others."""
    project.write("qa.eval.yaml", suite(**dict.fromkeys("abcde", "hello")))
    project.write(
        "conftest.py",
        """
        import threading, pytest

        @pytest.fixture(scope="session")
        def agentv_provider():
            together = threading.Barrier(5)
            def answer(prompt):
                together.wait(timeout=60)
                return "hello"
            return answer
        """,
    )
    assert project.run("--agentv-workers=5").outcomes == {"passed": 5}


def test_session_objects_of_two_folders_are_not_mixed_up(project, suite):
    project.write(
        "conftest.py",
        """
        def pytest_collection_modifyitems(items):
            items.sort(key=lambda item: item.name[::-1])  # one of each folder in turn
        """,
    )
    for folder in ("one", "two"):
        project.write(f"{folder}/qa.eval.yaml", suite(**{f"{folder}-{number}": "hello" for number in range(10)}))
        project.write(
            f"{folder}/conftest.py",
            f"""
            import pytest

            @pytest.fixture(scope="session")
            def agentv_provider():
                return lambda prompt: "hello from {folder}"
            """,
        )
    run = project.run("--agentv-workers=2")
    assert run.outcomes == {"passed": 20}
    for result in run.results:
        assert result["candidate_answer"] == f"hello from {result['eval_id'].partition('-')[0]}"


def test_a_target_that_batches_does_not_take_an_objects_cases_along(project, suite):
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            provider_batching: true
            command_template: "false"
        """,
    )
    project.write("qa.eval.yaml", suite(a="hello", b="hello"))
    project.write(
        "conftest.py",
        "import pytest\n\n@pytest.fixture(scope='session')\ndef agentv_provider():\n"
        "    return lambda prompt: f'hello: {prompt}'\n",
    )
    assert project.run("--agentv-workers=4").outcomes == {"passed": 2}
