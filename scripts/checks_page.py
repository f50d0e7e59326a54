"""Write docs/checks.md from the classes of the checks: their meaning, keys and examples.

python scripts/checks_page.py          # tell whether the page is behind
python scripts/checks_page.py --write  # replace docs/checks.md
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kind_tables import rows

from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.table import EVALUATORS

PAGE: Final = Path(__file__).parents[1] / "docs" / "checks.md"

INTRODUCTION: Final = """\
# All checks

A check judges an answer in the process of pytest, without a model and without a script.
[Evaluators](evaluators.md) shows how to write it, and the kinds that need more.

<!-- Written by `python scripts/checks_page.py --write`. Change the classes or the script, not this page. -->

| check | passes when |
|---|---|
"""

KEYS: Final = """
## Keys

The short form `{contains: 30 days}` sets `value`, of `length` and `field` all keys: `{length: {max_words: 9}}`. The
keys `weight`, `required`, `negate`, `path` and `name` are [keys of every evaluator](evaluators.md#checks).

| check | key | value | meaning |
|---|---|---|---|
"""

DETAILS: Final = """
## Details
"""

TEXTS: Final = """
- **Thoughts.** If a server does not separate the thoughts of a model (`<think>…</think>`), they are part of the answer.
  The hook [`pytest_agentv_response`](extend.md#hooks) can remove them.
- **Unicode.** Checks compare code points. If only the Unicode form, an apostrophe, a hyphen or an invisible character
  differs, the miss says so.
- **In Python** each check is a class: `agentv.run(…, evaluators=[Contains(value="30 days"), Length(max_words=20)])`.
"""

EXAMPLES: Final = """
## Examples

The target repeats its input, so the `input` of each example is the answer that passes. It also reports a tool call.

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

RUN: Final = """
```sh
pytest evals -q
```

```text
… passed…
```

`similar` asks a model for embeddings:

```yaml
assert:
"""


def checks() -> Mapping[str, type[Evaluator]]:
    """Return the kinds of the page, by word: those that have examples."""
    return {word: kind for word, kind in sorted(EVALUATORS.items()) if kind.examples and word == kind.kind}


def page() -> str:
    """Return the text of the page."""
    similar = "".join(f"  - {_flow(check)}\n" for check in EVALUATORS["similar"].examples[0]["assert"])
    examples = "".join(f"{line}\n" for line in _examples())
    details = "".join(f"\n- **{word}.** {_meaning(kind)[1]}" for word, kind in checks().items() if _meaning(kind)[1])
    return "".join(
        (
            INTRODUCTION,
            *(f"| `{word}` | {_meaning(kind)[0]} |\n" for word, kind in checks().items()),
            KEYS,
            *(f"{row}\n" for row in _keys()),
            DETAILS,
            details,
            TEXTS,
            EXAMPLES,
            f"```yaml\n# evals/checks.eval.yaml\ncases:\n{examples}```\n",
            RUN,
            similar,
            "```\n",
        )
    )


def _keys() -> Iterator[str]:
    """Yield a row for each key; checks with the same keys share their rows."""
    same: dict[tuple[str, ...], list[str]] = {}
    for word, kind in checks().items():
        if own := tuple(rows(kind)):
            same.setdefault(own, []).append(f"`{word}`")
    for own, words in same.items():
        yield from (f"| {', '.join(words)} {row}" for row in own)


def _meaning(kind: type[Evaluator]) -> tuple[str, str]:
    first, _, rest = (kind.__doc__ or "").strip().partition("\n\n")
    return " ".join(first.split()), " ".join(rest.split())


def _examples() -> Iterator[str]:
    for word, kind in checks().items():
        for number, example in enumerate(kind.examples if word != "similar" else (), start=1):
            name = word if number == 1 else f"{word}-{number}"
            yield f"  - id: {name}"
            yield f"    input: {json.dumps(example['answer'], ensure_ascii=False)}"
            yield f"    assert: [{', '.join(map(_flow, example['assert']))}]"


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style, with quotes where it needs them."""
    if isinstance(value, str):
        is_plain = re.sub("[ _-]", "", value).isalpha() and value not in ("yes", "no", "true", "null")
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def main(arguments: Sequence[str]) -> str | None:
    """Write the page, or return that it is behind."""
    if list(arguments) == ["--write"]:
        PAGE.write_text(page(), "utf-8")
    elif PAGE.read_text("utf-8") != page():
        return f"{PAGE} is behind the classes: python scripts/checks_page.py --write"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
