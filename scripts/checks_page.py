"""Write docs/checks.md from the classes of the checks: their meaning, keys and examples.

python scripts/checks_page.py          # tell whether the page is behind
python scripts/checks_page.py --write  # replace docs/checks.md
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kind_tables import table

from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.table import EVALUATORS

PAGE: Final = Path(__file__).parents[1] / "docs" / "checks.md"

INTRODUCTION: Final = """\
# Checks

A check judges an answer in this process, without a model and without a script. Write checks in any list of evaluators:
`evaluators`, `assertions` or `assert`. [Evaluators](evaluators.md) describes the kinds that need more: judges, scripts,
expected tool calls.

<!-- Written by `python scripts/checks_page.py --write`. Change the classes or the script, not this page. -->

```yaml
# evals/forms.eval.yaml
evalcases:
  - id: forms
    expected_outcome: Names the refund period
    input: You may return it within 30 days.
    assert:
      - contains: 30 days                        # the short form: a kind and its value
      - {type: contains, value: 30 days}         # the long form says the same
      - {contains: 30 days, weight: 2, name: refund period}
      - not-contains: sorry                      # `not-` inverts the verdict
      - {contains: sorry, negate: true}          # so does `negate`
      - {contains: return, required: true}       # the case fails without it
      - Names the refund period                  # a sentence: a model checks it
```

- **Short form.** The first key that names a kind decides. The other keys are those of the kind:
  `{levenshtein: text, threshold: 0.9}`. A kind with several keys takes a mapping: `{length: {min_words: 3}}`. Hyphens
  and underscores are the same: `contains-any`, `contains_any`.
- **`name`** is optional. It is derived from the kind and its written value (`contains: 30 days`), and unique within the
  list.
- **`not-`** before any kind, or `negate: true`, inverts the verdict: the score is 1 minus the score, and hits and
  misses are swapped. A check that could not judge stays an error, and one whose `path` is missing stays a miss. So
  does a `not-composite` around such a check, and a `not-field` of an answer without JSON: a negated check passes only
  if it was made. `not-field` passes if the answer is JSON that lacks the part. A score that depends on an unknown value
  (the `cost` of a target that reports none) is 0. If it is inverted, also by a `not-composite` around it, it is an
  error.
- **`required: true`**: the case fails without it, whatever the mean of the scores and the weight. A check that can
  only pass or fail has to score 1. `contains-all`, `icontains-all` and `words` have to find everything. Other kinds
  have to reach the threshold of the case. A kind with its own `threshold` has to reach that.
- **`path`** judges a part of a JSON answer: `{contains: tent, path: "items[0].name"}`. The JSON may stand in a code
  fence or amid text. `items.length` is how many entries the list `items` has. If the part is missing, the check misses,
  and says which part is there. A number is a text without needless zeros: `120.5`, also for `120.50`. A flag is the
  text `true` or `false`. So `equals: "120"`, perhaps from a table, equals the number 120; `equals: 120` equals the
  number only. `latency`, `cost`, `token_usage`, `tool_trajectory` and `tool-called` have no `path`, because they do not
  judge the answer. Code judges get `path` as an ordinary key; put them into a [field](#field).
- **`file`** judges a file of the [workspace](coding-agents.md) instead of the answer: `{contains: tent, file: notes.txt}`;
  `file: diff` judges what has changed there, `file: changed` the list of changed files.
- **A sentence** instead of a mapping is checked by the judge model. All sentences of a list go to the judge in one
  call. Together they weigh as much as their number, and each has its own result in `evaluator_results`. `rubrics`
  of a case are required; sentences are not. Any text is a sentence, whatever it says, except for the name of a check,
  alone or with a colon (`- is-json`, `- "Contains-any: tent"`): this is an error. Write `{is-json: true}`.
- **Thoughts.** If a server does not separate the thoughts of a model (`<think>…</think>`), they are part of the answer,
  and `contains` may match them. A hook, [`pytest_agentv_response`](extending.md#hooks), can remove them before the
  checks judge.
- **Unicode.** Checks compare code points. "é" may be one or two of them (NFC, NFD), and a space may be a no-break
  space. If only that differs, the miss says so: `only the Unicode form differs: they match as NFC`. If only an
  apostrophe, a hyphen or an invisible character differs, it names the character. A `not-contains` passes then, with a
  warning.

Values are checked when the file is loaded: an invalid pattern, an invalid JSON Schema or an unknown function is an
error of the case, with its line. `agentv validate` finds it without a run.

The target of this page repeats its input, so the `input` of each example is the answer. It also reports a tool call.
The judge is a function that finds every sentence true:

```python
# evals/shop.py
import json
import re


def answer(prompt: str) -> dict:
    call = {"tool": "search", "input": {"query": "tent"}}
    return {"output_messages": [{"role": "assistant", "content": prompt, "tool_calls": [call]}]}


def judge(prompt: str) -> str:
    ids = dict.fromkeys(re.findall(r"^- \\[([\\w-]+)\\]", prompt, re.MULTILINE))
    checks = [{"id": each, "satisfied": True, "reasoning": "It does."} for each in ids]
    return json.dumps({"checks": checks, "overall_reasoning": "All is well."})
```

```python
# evals/checks.py
def is_polite(answer: str) -> bool:
    return "stupid" not in answer
```

```yaml
# evals/targets.yaml
targets:
  - {name: default, provider: python, callable: "shop.py:answer", judge_target: judge}
  - {name: judge, provider: python, callable: "shop.py:judge"}
```
"""

PYTHON: Final = """\
## In Python

Each check is a class, and `agentv.run` takes its objects beside mappings and sentences:

```python
# evals/test_refunds.py
from pytest_agentv import Contains, Length


def test_refunds(agentv):
    checks = [Contains(value="30 days"), Length(max_words=20), {"not-contains": "sorry"}]
    assert agentv.run("You may return it within 30 days.", evaluators=checks).passed
```

## Run them

```sh
pytest evals -q
```

```text
… passed…
```
"""


def checks() -> Mapping[str, type[Evaluator]]:
    """Return the kinds of the page, by word: those that have examples."""
    return {word: kind for word, kind in sorted(EVALUATORS.items()) if kind.examples and word == kind.kind}


def page() -> str:
    """Return the text of the page."""
    return "\n".join((INTRODUCTION, *_overview(), *_sections(), PYTHON))


def _overview() -> Iterator[str]:
    yield "| check | passes when |\n|---|---|"
    for word, kind in checks().items():
        yield f"| [{word}](#{word}) | {_meaning(kind)[0]} |"
    yield ""


def _sections() -> Iterator[str]:
    for word, kind in checks().items():
        first, rest = _meaning(kind)
        yield f"## {word}\n\n{first}\n"
        if rest:
            yield f"{rest}\n"
        if word == "similar":  # asks a model: a fragment, which is only checked
            yield (
                "```yaml\nassert:\n" + "".join(f"  - {_flow(each)}\n" for each in kind.examples[0]["assert"]) + "```\n"
            )
        else:
            yield f"```yaml\n# evals/{word}.eval.yaml\n{_example(kind)}```\n"
        if set(kind.model_fields) - set(Evaluator.model_fields) or word == "field":
            yield f"{table(word, kind)}\n"


def _meaning(kind: type[Evaluator]) -> tuple[str, str]:
    first, _, rest = (kind.__doc__ or "").strip().partition("\n\n")
    return " ".join(first.split()), " ".join(rest.split())


def _example(kind: type[Evaluator]) -> str:
    lines = ["evalcases:"]
    for number, example in enumerate(kind.examples, start=1):
        name = kind.kind if number == 1 else f"{kind.kind}-{number}"
        lines += [
            f"  - id: {name}",
            "    expected_outcome: It passes",
            f"    input: {json.dumps(example['answer'], ensure_ascii=False)}",
            "    assert:",
            *(f"      - {_flow(check)}" for check in example["assert"]),
        ]
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style; a check with one key as a block."""
    if isinstance(value, str):
        return value if value.replace(" ", "").isalnum() else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping) and len(value) == 1:
        (key, item), *_ = value.items()
        return f"{key}: {json.dumps(item, ensure_ascii=False)}"
    return json.dumps(value, ensure_ascii=False)


def main(arguments: Sequence[str]) -> str | None:
    """Write the page, or return that it is behind."""
    if list(arguments) == ["--write"]:
        PAGE.write_text(page(), "utf-8")
    elif page() != PAGE.read_text("utf-8"):
        return f"{PAGE} is behind the classes: python scripts/checks_page.py --write"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
