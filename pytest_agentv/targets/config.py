"""Reads `.agentv.yaml` and `.agentv/config.yaml`, which name the files that count as guidelines."""

import posixpath
from pathlib import Path
from typing import Final, NamedTuple

from pytest_agentv.errors import SourceError, locate
from pytest_agentv.files.places import Place
from pytest_agentv.files.problems import Problem
from pytest_agentv.files.source import read_yaml
from pytest_agentv.targets.definitions import folders_upward

DEFAULT_GUIDELINE_PATTERNS: Final = ("**/*.instructions.md", "**/instructions/**", "**/*.prompt.md", "**/prompts/**")


class GuidelineConfig(NamedTuple):
    """The patterns for an eval file, and the problems of the config file that was read."""

    patterns: tuple[str, ...] = DEFAULT_GUIDELINE_PATTERNS
    problems: tuple[Problem, ...] = ()


def load_guideline_patterns(eval_dir: Path, repo_root: Path) -> GuidelineConfig:
    """Return the patterns of the first config file, or the default ones.

    They are relative to the repository's root, and also to the folder of `.agentv.yaml` or `.agentv`.
    A problem that makes the file unusable is an error. `guideline_patterns: []` means no guidelines at all.
    Source: evaluation-2026-01, "Load custom guideline patterns", "Use defaults when config absent".
    """
    candidates = [eval_dir / ".agentv.yaml"]
    for folder in folders_upward(eval_dir, repo_root):
        candidates += [folder / ".agentv" / "config.yaml", folder / ".agentv" / "config.yml"]
    path = next((each for each in candidates if each.is_file()), None)
    if path is None:
        return GuidelineConfig()
    patterns, problems = read_config_file(path)
    below = posixpath.relpath(path.parent.parent if path.stem == "config" else path.parent, repo_root)
    plain = () if below == "." else (each for each in patterns if not each.startswith(("!", "**/")))
    near = [posixpath.normpath(f"{below}/{each}") for each in plain]
    return GuidelineConfig((*patterns, *near), problems)


def read_config_file(path: Path) -> GuidelineConfig:
    """Return a file's patterns, or the default ones if it has none or is invalid, and its problems."""
    from pytest_agentv.files.kind_reader import read_part  # noqa: PLC0415 - imports pydantic
    from pytest_agentv.targets.keys import Config  # noqa: PLC0415 - imports pydantic

    try:
        source = read_yaml(path)
    except SourceError as error:
        reason = str(error).removeprefix(f"{locate(path, error.line)}: ")
        return GuidelineConfig(problems=(Problem(path, error.line, "", reason),))
    problems = list(source.warnings)
    value, place = source.value, Place(source, (), problems)
    if not isinstance(value, dict):
        place.expected("a mapping with the key guideline_patterns", value)
        return GuidelineConfig(problems=tuple(problems))
    config = read_part(Config, value, place)
    if config is None or config.guideline_patterns is None:
        return GuidelineConfig(problems=tuple(problems))
    return GuidelineConfig(config.guideline_patterns, tuple(problems))
