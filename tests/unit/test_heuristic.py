"""`heuristic`: signs of errors."""

import pytest

from pytest_agentv.evaluators.text import error_sign


@pytest.mark.parametrize(
    ("answer", "sign"),
    [
        ("ValueError: nope", "ValueError: nope"),
        ("Error: no such file", "Error: no such file"),
        ("text\n  error: expected ';'\nmore", "error: expected ';'"),
        ("Uncaught TypeError: x is undefined", "Uncaught TypeError: x is undefined"),
        ("java.io.IOException: closed", "java.io.IOException: closed"),
        ('Exception in thread "main" x', 'Exception in thread "main" x'),
        ("a\n    at run (/src/index.js:10:5)\n", "at run (/src/index.js:10:5)"),
        ("a\n\tat com.acme.Main.run(Main.java:42)", "at com.acme.Main.run(Main.java:42)"),
        ("fatal: not a git repository", "fatal: not a git repository"),
        ("panic: nil dereference", "panic: nil dereference"),
        ("thread 'main' panicked at src/main.rs:2:5:", "thread 'main' panicked at src/main.rs:2:5:"),
        ("Segmentation fault (core dumped)", "Segmentation fault (core dumped)"),
        ("Error: " + "x" * 200, "Error: " + "x" * 93 + "…"),
    ],
)
def test_errors_of_programs_are_recognised(answer, sign):
    assert error_sign(answer) == sign


@pytest.mark.parametrize(
    "answer",
    [
        "All good.",
        "Errors: none",
        "**Error handling:** wrap it in try",
        "The function raises ValueError: see the docs.",
        "Error handling: use try",
        "I cannot find an error here.",
        "Meet me at noon (room 5:30)",
    ],
)
def test_prose_about_errors_is_no_error(answer):
    assert error_sign(answer) is None
