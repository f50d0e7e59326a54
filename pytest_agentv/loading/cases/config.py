"""Decides which files of a case are guidelines, by the patterns of `.agentv.yaml` or `.agentv/config.yaml`."""

import posixpath
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
    """The patterns for an eval file, and the problems of the config file that was read."""

    patterns: tuple[str, ...]
    problems: tuple[Problem, ...] = ()


def load_guideline_patterns(eval_dir: Path, repo_root: Path) -> GuidelineConfig:
    """Return the patterns of the first config file, or the default ones.

    They are relative to the repository's root, and also to the folder of `.agentv.yaml` or `.agentv`.
    A problem that makes the file unusable is an error. `guideline_patterns: []` means no guidelines at all.
    Source: evaluation-2026-01, "Load custom guideline patterns", "Use defaults when config absent".
    """
    path = next(_config_files(eval_dir, repo_root), None)
    if path is None:
        return GuidelineConfig(DEFAULT_GUIDELINE_PATTERNS)
    patterns, problems = read_config_file(path)
    folder = posixpath.relpath(path.parent.parent if path.stem == "config" else path.parent, repo_root)
    plain = () if folder == "." else (each for each in patterns if not each.startswith(("!", "**/")))
    near = [posixpath.normpath(f"{folder}/{each}") for each in plain]
    return GuidelineConfig((*patterns, *near), problems)


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


def read_config_file(path: Path) -> GuidelineConfig:
    """Return a file's patterns, or the default ones if it has none or is invalid, and its problems."""
    try:
        source = read_yaml(path)
    except SourceError as error:
        reason = str(error).removeprefix(f"{locate(path, error.line)}: ")
        return GuidelineConfig(DEFAULT_GUIDELINE_PATTERNS, (Problem(path, error.line, "", reason),))
    fault = _fault(source)
    if fault:
        return GuidelineConfig(DEFAULT_GUIDELINE_PATTERNS, (*source.warnings, fault))
    unknown = (_unknown_key(source, key) for key in source.value if key not in _KEYS)
    patterns = source.value.get("guideline_patterns")
    patterns = DEFAULT_GUIDELINE_PATTERNS if patterns is None else tuple(patterns)
    return GuidelineConfig(patterns, (*source.warnings, *unknown))


def _fault(source: Source) -> Problem | None:
    """Return the problem that makes a file unusable; None if it is usable."""
    path, value = source.path, source.value
    if not isinstance(value, dict):
        reason = f"expected a mapping with the key guideline_patterns, got {describe_value(value)}"
        return Problem(path, source.line_of(), "", reason)
    schema = value.get("$schema")
    if schema not in (None, CONFIG_SCHEMA):
        return Problem(
            path, source.line_of(("$schema",)), "$schema", f"expected {CONFIG_SCHEMA}, got {describe_value(schema)}"
        )
    patterns = value.get("guideline_patterns", [])
    line = source.line_of(("guideline_patterns",))
    if patterns is not None and not isinstance(patterns, list):
        return Problem(
            path, line, "guideline_patterns", f"expected a list of glob patterns, got {describe_value(patterns)}"
        )
    for index, pattern in enumerate(patterns or ()):
        if not isinstance(pattern, str) or not pattern.strip():
            line = source.line_of(("guideline_patterns", index))
            return Problem(
                path, line, f"guideline_patterns[{index}]", f"expected a glob pattern, got {describe_value(pattern)}"
            )
    return None


def _unknown_key(source: Source, key: str) -> Problem:
    hint = did_you_mean(key, _KEYS) or f"known keys: {', '.join(_KEYS)}"
    return Problem(source.path, source.line_of((key,)), key, "unknown key", hint, "warning")


def _matches(path: str, pattern: str) -> bool:
    from pytest_agentv.loading.globs import matches_glob  # noqa: PLC0415 - only for cases with files

    positive = pattern.lstrip("!") if not pattern.startswith("!(") else pattern
    is_negated = (len(pattern) - len(positive)) % 2 == 1
    return matches_glob(path, positive.removeprefix("./")) is not is_negated
