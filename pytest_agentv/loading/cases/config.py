"""Decides which files of a case are guidelines, by the patterns of `.agentv.yaml` or `.agentv/config.yaml`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pytest_agentv.errors import SourceError, locate
from pytest_agentv.loading.files.source import Source, read_yaml
from pytest_agentv.loading.problems import Problem, describe_value, did_you_mean
from pytest_agentv.loading.targets.environment import folders_upward

DEFAULT_GUIDELINE_PATTERNS: Final = ("**/*.instructions.md", "**/instructions/**", "**/*.prompt.md", "**/prompts/**")
CONFIG_SCHEMA: Final = "agentv-config-v2"
_KEYS: Final = ("$schema", "guideline_patterns")


class GuidelineConfig(NamedTuple):
    """The patterns for an eval file, and the problems of the config files that were read."""

    patterns: tuple[str, ...]
    warnings: tuple[Problem, ...]


def load_guideline_patterns(eval_dir: Path, repo_root: Path) -> GuidelineConfig:
    """Return the patterns of the first valid config file, or the default ones.

    An invalid file is ignored with a warning. `guideline_patterns: []` means no guidelines at all.
    Source: evaluation-2026-01, "Load custom guideline patterns", "Use defaults when config absent".
    """
    warnings: list[Problem] = []
    for path in _config_files(eval_dir, repo_root):
        patterns = _read_patterns(path, warnings)
        if patterns is not None:
            return GuidelineConfig(patterns, tuple(warnings))
    return GuidelineConfig(DEFAULT_GUIDELINE_PATTERNS, tuple(warnings))


def check_config_file(path: Path) -> tuple[Problem, ...]:
    """Return the problems of a config file. A problem that makes it unusable is an error."""
    problems: list[Problem] = []
    if _read_patterns(path, problems) is None:
        *others, fault = problems
        problems = [*others, fault.replace(level="error")]
    return tuple(problems)


def matches_guideline(relative_path: str, patterns: Sequence[str]) -> bool:
    """Whether a path relative to the repository's root matches one of the patterns.

    `**`, `*`, `?`, `[…]`, `{a,b}` and `@(a|b)` work. A leading `!` matches everything else. Case counts. Only a
    literal dot matches the dot at the start of a name.
    Source: evaluation-2026-01, "Match files with glob patterns".
    """
    path = relative_path.replace("\\", "/")
    return any(_matches(path, pattern) for pattern in patterns)


def _config_files(eval_dir: Path, repo_root: Path) -> Iterator[Path]:
    candidates = [eval_dir / ".agentv.yaml"]
    for folder in folders_upward(eval_dir, repo_root):
        candidates += [folder / ".agentv" / "config.yaml", folder / ".agentv" / "config.yml"]
    return (path for path in candidates if path.is_file())


def _read_patterns(path: Path, warnings: list[Problem]) -> tuple[str, ...] | None:
    """Return a file's patterns, or the default ones if it has none; None if the file is invalid."""
    try:
        source = read_yaml(path)
    except SourceError as error:
        reason = str(error).removeprefix(f"{locate(path, error.line)}: ")
        warnings.append(_passed_over(path, error.line, "", reason))
        return None
    warnings += source.warnings
    fault = _fault(source)
    if fault:
        warnings.append(fault)
        return None
    warnings += (_unknown_key(source, key) for key in source.value if key not in _KEYS)
    patterns = source.value.get("guideline_patterns")
    return DEFAULT_GUIDELINE_PATTERNS if patterns is None else tuple(patterns)


def _fault(source: Source) -> Problem | None:
    """Return the problem that makes a file unusable; None if it is usable."""
    path, value = source.path, source.value
    if not isinstance(value, dict):
        reason = f"expected a mapping with the key guideline_patterns, got {describe_value(value)}"
        return _passed_over(path, source.line_of(), "", reason)
    schema = value.get("$schema")
    if schema not in (None, CONFIG_SCHEMA):
        return _passed_over(
            path, source.line_of(("$schema",)), "$schema", f"expected {CONFIG_SCHEMA}, got {describe_value(schema)}"
        )
    patterns = value.get("guideline_patterns", [])
    line = source.line_of(("guideline_patterns",))
    if patterns is not None and not isinstance(patterns, list):
        return _passed_over(
            path, line, "guideline_patterns", f"expected a list of glob patterns, got {describe_value(patterns)}"
        )
    for index, pattern in enumerate(patterns or ()):
        if not isinstance(pattern, str) or not pattern.strip():
            line = source.line_of(("guideline_patterns", index))
            return _passed_over(
                path, line, f"guideline_patterns[{index}]", f"expected a glob pattern, got {describe_value(pattern)}"
            )
    return None


def _passed_over(path: Path, line: int | None, key: str, reason: str) -> Problem:
    return Problem(path, line, key, f"{reason}; this file is ignored", level="warning")


def _unknown_key(source: Source, key: str) -> Problem:
    hint = did_you_mean(key, _KEYS) or f"known keys: {', '.join(_KEYS)}"
    return Problem(source.path, source.line_of((key,)), key, "unknown key", hint, "warning")


def _matches(path: str, pattern: str) -> bool:
    from pytest_agentv.loading.globs import matches_glob  # noqa: PLC0415 - only for cases with files

    positive = pattern.lstrip("!") if not pattern.startswith("!(") else pattern
    is_negated = (len(pattern) - len(positive)) % 2 == 1
    return matches_glob(path, positive.removeprefix("./")) is not is_negated
