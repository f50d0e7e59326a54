"""Judge: the answer must state what the evaluator's own query finds (key `sql` of the evaluator).

The judge builds the database again and asks it itself, so it agrees with the agent only if the agent is right.
"""

import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data"


def truth(sql: str) -> dict[str, Any]:
    """Return the one row that a query gives, by column."""
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    for script in ("schema.sql", "seed.sql"):
        connection.executescript((DATA / script).read_text(encoding="utf-8"))
    row = dict(connection.execute(sql).fetchone())
    connection.close()
    return row


def main() -> None:
    case = json.load(sys.stdin)
    expected = truth(case["config"]["sql"])
    words = {name: rf"(?<![\w.]){re.escape(str(value))}(?!\w)" for name, value in expected.items()}
    found = {name: re.search(pattern, case["candidate_answer"]) is not None for name, pattern in words.items()}
    result = {
        "score": sum(found.values()) / len(found),
        "hits": [f"{name} is {expected[name]}" for name, is_there in found.items() if is_there],
        "misses": [f"{name} should be {expected[name]}" for name, is_there in found.items() if not is_there],
        "reasoning": "compared with a query of the judge's own",
        "details": {"expected": expected},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
