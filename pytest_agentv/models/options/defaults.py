"""The defaults of options."""

from pathlib import Path
from typing import Final

DEFAULT_TIMEOUT_SECONDS: Final = 120.0
DEFAULT_MAX_RETRIES: Final = 2
DEFAULT_THRESHOLD: Final = 1.0
DEFAULT_MARGIN: Final = 0.05
DEFAULT_CONFIRM: Final = 10
DEFAULT_SHIP_LIMIT: Final = 50.0
DEFAULT_EVAL_GLOBS: Final = ("*.eval.yaml", "*.eval.yml", "*.eval.jsonl", "EVAL.yaml", "EVAL.yml", "*.EVAL.yaml")
DEFAULT_EXPLORATION_TOOLS: Final = (
    *("read", "grep", "glob", "search", "list"),
    *("Read", "Grep", "Glob", "WebSearch", "WebFetch"),
)

DEFAULT_RESULTS_FOLDER: Final = Path(".agentv/results")
DEFAULT_BASELINE: Final = Path("agentv.baseline.jsonl")
"""In pytest's root directory."""
CACHE_FOLDER: Final = Path(".agentv/cache")
LOGS_FOLDER: Final = Path(".agentv/logs")
