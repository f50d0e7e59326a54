"""What to write instead of the keys and names that promptfoo has. Import this lazily: few files have them."""

from collections.abc import Mapping
from typing import Final

INSTEAD: Final[Mapping[str, str]] = {
    "assertScoringFunction": "the score is the weighted mean; `composite` has other aggregators",
    "commandLineOptions": "options of a run are those of pytest: see `pytest --help`",
    "defaultTest": "write `defaults` for the keys of all cases, `assert` for their checks",
    "derivedMetrics": "a name for several checks: `composite`",
    "evaluateOptions": "write `repeat`, or give --agentv-workers",
    "options": "nothing turns the answer into another one: `path` judges a part of a JSON answer, `python` any part",
    "outputPath": "give --agentv-out",
    "prompts": "write the prompt as `input` under `defaults`, or several as `matrix: {prompt: [a.md, b.md]}`",
    "provider": "write `target`, and the provider in targets.yaml",
    "providers": "write `matrix: {target: [a, b]}`, and the providers in targets.yaml",
    "scenarios": "write `matrix`, or a table: `evalcases: {from: cases.csv}`",
    "transform": "nothing turns the answer into another one: `path` judges a part of a JSON answer, `python` any part",
}
"""Keys of a file or a case."""

NAMES: Final[Mapping[str, str]] = {
    "output": "the answer is called 'answer' here",
    "actual_output": "the answer is called 'answer' here",
    "context": "'vars' and 'case' have what promptfoo keeps in its context",
}
"""Names in Python code."""
