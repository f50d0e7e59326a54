"""Write docs/api.md: the names that `pytest_agentv` exports, with the docstrings and fields that their sources have.

python scripts/api_page.py          # print the page
python scripts/api_page.py --write  # replace docs/api.md
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from api_names import FIXTURES, HOOKS, Entry, Member, entry_of, entry_of_module

PAGE: Final = Path(__file__).parents[1] / "docs" / "api.md"
PACKAGE_FOLDER: Final = Path(__file__).parents[1] / "pytest_agentv"

INTRODUCTION: Final = """\
# API

Your conftest files, tests and plugins import these names from `pytest_agentv`:

```python
from pytest_agentv import EvalCase, EvalResult, Evaluator, Score
```

Judge scripts import theirs from `pytest_agentv.sdk`: [code_judge](evaluators.md#code_judge). Everything else inside the
package may change at any time. A name is imported when it is first used: `import pytest_agentv` costs next to nothing.

Records are frozen: `record.replace(field=value)` returns a changed copy, and `record.to_plain()` a mapping.
[Extend](extend.md) shows the names at work. Below a name in bold are its fields and methods.

<!-- Written by `python scripts/api_page.py --write`. Change the docstrings, not this page. -->
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join((INTRODUCTION, *_hooks(), *_sections())).rstrip("\n") + "\n"


def sections() -> dict[str, list[str]]:
    """Return the public names by the titles that the list of them has."""
    blocks = (PACKAGE_FOLDER / "__init__.pyi").read_text("utf-8").split("\n# ")[1:]
    return {block.partition("\n")[0]: re.findall(r" as (\w+)$", block, re.MULTILINE) for block in blocks}


def _sections() -> Iterator[str]:
    """Yield a table for each title: a row in bold for each name, and below it its fields and methods."""
    for title, names in sections().items():
        yield f"## {title}\n\n| name | type | default | meaning |\n|---|---|---|---|"
        for name in names:
            yield from _entry(entry_of(name))
        yield ""


def _hooks() -> Iterator[str]:
    yield "## Hooks\n\n| hook | meaning |\n|---|---|"
    yield from (_row(_call(member), text=member.summary) for member in entry_of_module(HOOKS).members)
    yield "\n## Fixtures\n\n| fixture | type | value |\n|---|---|---|"
    for member in entry_of_module(FIXTURES).members:
        yield _row(member.name, member.type.rpartition(" -> ")[2], text=member.summary)
    yield ""


def _entry(entry: Entry) -> Iterator[str]:
    yield f"| **{entry.name}** {_row(entry.signature, '', text=entry.summary)}"
    told = () if entry.name == "Record" else ("replace", "to_plain")
    for member in entry.members:
        if not member.is_method:
            yield _row(member.name, member.type, member.default, text=_sentence(member.summary))
        elif member.name not in told:
            yield _row(_call(member), "", "", text=member.summary)


def _call(member: Member) -> str:
    return f"{member.name}{member.type}"


def _sentence(text: str) -> str:
    """Descriptions of the keys of kinds are written for the middle of a line."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")


def _row(*codes: str, text: str) -> str:
    # "or": within code of a table, not every renderer reads `\\|`
    cells = [f"`{code.replace(' | ', ' or ')}`" if code else "" for code in codes]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (*cells, text)) + " |"


def main() -> None:
    """Print or write the page."""
    parser = argparse.ArgumentParser(description="Write docs/api.md from the public names of pytest_agentv.")
    parser.add_argument("--write", action="store_true", help="replace docs/api.md")
    if parser.parse_args().write:
        PAGE.write_text(page(), "utf-8")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()
