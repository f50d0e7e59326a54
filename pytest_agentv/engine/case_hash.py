"""Hashes cases: a kept result is valid only as long as the hash of its case stays the same."""

import hashlib
import json
from pathlib import Path
from typing import Final

from pytest_agentv.loading.cases.cases import LoadedCase
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.models.base import Json, Plain
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.messages import FilePart

_RULES: Final = frozenset(
    (
        *("threshold", "threshold_source", "repeat", "repeat_source", "min_pass_rate", "min_pass_rate_source"),
        *("required", "group", "tags", "skip", "xfail"),
        *("target", "targets"),  # the target of a result has a hash of its own
    )
)
"""The fields of a case that affect how its run judges it or whom it asks, but neither its answer nor its score."""

_NONE: Final = "[]"


def _to_plain(value: object) -> Json:
    if isinstance(value, Plain):
        return value.to_plain()
    from pytest_agentv.loading.value_hashes import text_of_value  # noqa: PLC0415 - few cases have such values

    return text_of_value(value) or str(value)


_to_json: Final = json.JSONEncoder(sort_keys=True, default=_to_plain).encode


class CaseHashes:
    """Hashes cases. The header of each eval file is serialized only once."""

    def __init__(self) -> None:
        self._headers: dict[Path, str] = {}

    def of(self, suite: SuiteSource, loaded: LoadedCase, case: EvalCase) -> str:
        """Return a hash of the case: its text, its file, the files it refers to, the changes of hooks."""
        written = loaded.case
        if suite.path not in self._headers:
            self._headers[suite.path] = _to_json(_without_rules(suite.header))
        parts = (part for message in written.messages for part in message.parts if isinstance(part, FilePart))
        files = [(part.is_guideline, _content(part)) for part in parts]
        files_json = _to_json(files) if files else _NONE
        expected = _to_json(written.expected_messages) if written.expected_messages else _NONE  # with texts of files
        own = loaded.value if suite.hashed_id is None else {**loaded.value, "id": suite.hashed_id}
        hashed = [_to_json(_without_rules(own)), self._headers[suite.path], files_json, expected]
        hashed += [] if written.vars is None else [_to_json(written.vars)]  # judges see all of them
        if case is not written and case != written:
            before, after = written.to_plain(), case.to_plain()
            changed = {key: after.get(key) for key in before | after if after.get(key) != before.get(key)}
            hashed += map(_to_json, filter(None, [_without_rules(changed)]))
        return hashlib.sha256(f"[{', '.join(hashed)}]".encode()).hexdigest()[:16]


def _content(part: FilePart) -> str:
    """Return the content of a file. Returns a hash of its bytes if they are not all text.

    Decoding replaces all invalid bytes by one character, so that different bytes could become the same text.
    """
    if part.media is not None:
        return part.media.sha256
    if "\N{REPLACEMENT CHARACTER}" not in part.text:
        return part.text
    try:
        return hashlib.sha256(Path(part.resolved_path).read_bytes()).hexdigest()
    except OSError:
        return part.text


def _without_rules(value: Json) -> Json:
    """Leave out the keys that do not make a kept score invalid: it is judged by the new rules without a call."""
    if not isinstance(value, dict):
        return value
    rest = {key: item for key, item in value.items() if key not in _RULES}
    execution = _without_rules(rest.pop("execution", None))
    return rest | {"execution": execution} if execution else rest
