"""A coding agent whose model is played: it reads its task and its rules, changes files, and says what it did."""

import sys
from pathlib import Path

FIXES = {
    "total": ("    return 0\n", "    return sum(prices)\n"),
    "shipping": ("    return 490\n", "    return 0 if cents >= 5_000 else 490\n"),
}
TESTS = {
    "total": "self.assertEqual(total([1, 2]), 3)",
    "shipping": "self.assertEqual(shipping(9_900), 0)",
}


def work(task: str) -> str:
    name = next(name for name in FIXES if name in task)
    source = Path("shop.py")
    source.write_text(source.read_text("utf-8").replace(*FIXES[name]), "utf-8")
    if "Write a test" in Path("AGENTS.md").read_text("utf-8"):
        with Path("test_shop.py").open("a", encoding="utf-8") as tests:
            tests.write(f"\n    def test_{name}_again(self):\n        {TESTS[name]}\n")
    return f"I mended {name}() in shop.py."


print(work(sys.stdin.read()))
