"""What `agentv generate rubrics` makes of replies. `tests/corpus/generate-rubrics` shows the rest."""

import json

import pytest
import yaml

FIRST = '{"id": "a", "description": "A", "weight": 2, "required": false}'
BOTH = [
    {"id": "a", "description": "A", "weight": 2, "required": False},
    {"id": "rubric-2", "description": "B b", "weight": 1, "required": True},
]


@pytest.fixture
def generate(agentv, tmp_path, monkeypatch):
    """Return what the command prints when a model gives a reply, and the rubrics in that."""
    monkeypatch.setenv("MOCK_API_KEY", "hunter2hunter2")
    (tmp_path / "a.eval.yaml").write_text("cases: [{id: a, criteria: o, input: Hello}]")

    def generate(reply):
        targets = {"targets": [{"name": "default", "provider": "mock", "response": reply}]}
        (tmp_path / "targets.yaml").write_text(json.dumps(targets))
        run = agentv("generate", "rubrics", "a.eval.yaml")
        assert "hunter2" not in run.out + run.err
        return run, yaml.safe_load(run.out)["rubrics"] if run.exit_code == 0 else []

    return generate


@pytest.mark.parametrize(
    "reply",
    [
        f'{{"rubrics": [{FIRST}, {{"description": " B\\n b "}}]}}',
        f'Here:\n```json\n{{"rubrics": [{FIRST}, {{"id": " ", "description": "B b", "weight": "x", "required": "y"}}]}}'
        "\n```\nDone.",
        f'{{"rubrics": []}} {{"rubrics": [{FIRST}, 5, {{}}, {{"description": ""}}, '
        '{"description": "B b", "weight": -1}]}',
        *(
            f'{{"rubrics": [{FIRST}, {{"description": "B b", "weight": {weight}}}]}}'
            for weight in ("1e999", "1" * 400, "true", "-0.5", "null")
        ),
    ],
)
def test_a_reply_is_read_and_what_is_left_out_gets_its_default(generate, reply):
    found = [{"id": None, "weight": 1, "required": True} | each for each in generate(reply)[1]]
    assert found == BOTH


@pytest.mark.parametrize(
    "reply", ["no", "[]", '{"rubrics": []}', '{"rubrics": "x"}', '{"rubrics": [{"id": "a"}]}', '{"rubrics": [']
)
def test_a_reply_without_rubrics_has_none(generate, reply):
    assert generate(reply)[0].exit_code == 1


def test_a_secret_that_a_model_repeats_is_not_printed_and_equal_ids_are_told_apart(generate):
    named = [{"id": "is-hunter2hunter2", "description": "d"} for _ in range(2)]
    reply = json.dumps({"rubrics": [{"id": "r", "description": "names hunter2hunter2\x1b[2J"}, *named]})
    run, rubrics = generate(reply)
    assert [(rubric["id"], rubric["description"]) for rubric in rubrics] == [
        ("r", "names ***\x1b[2J"),
        ("is-***", "d"),
        ("is-***-3", "d"),
    ]
    assert "\x1b" not in run.out


@pytest.mark.parametrize("length", range(186, 200, 3))
def test_a_reply_is_cut_after_its_secrets_are_masked(generate, length):
    run, _ = generate("x" * length + "hunter2hunter2" * 3)
    assert (run.exit_code, "hun" in run.err) == (1, False)
