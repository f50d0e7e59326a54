"""Writes records as readable YAML documents: texts with several lines become block literals."""

import re
from typing import Any, Final

import yaml

from pytest_agentv.files.source import plain_value
from pytest_agentv.model.base import JsonObject

_UNFIT_FOR_BLOCKS: Final = re.compile(
    "[^\n\t -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffe]"
)
"""Characters that need an escape: unprintable ones, and line breaks that YAML readers turn into a newline."""


class _Dumper(yaml.SafeDumper):
    """A dumper that uses block literals where YAML allows them, and indents lists below their key."""

    def analyze_scalar(self, scalar: str) -> Any:
        analysis: Any = super().analyze_scalar(scalar)
        # PyYAML refuses blocks for texts with tabs or trailing spaces, which are common in answers.
        if analysis.multiline and not _UNFIT_FOR_BLOCKS.search(scalar):
            analysis.allow_block = True
        return analysis

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's signature
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _UNFIT_FOR_BLOCKS.search(text) or text.startswith("\t"):  # YAML reads a block's first tab as indentation
        style = '"'
    elif "\n" in text:
        style = "|"
    elif not isinstance(plain_value(text), str):
        style = '"'  # PyYAML follows YAML 1.1, where `1e3` needs no quotes; in 1.2 it is a number
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_document(record: JsonObject) -> str:
    """Return a record of plain JSON data as one document that starts with `---` and ends with a newline."""
    return yaml.dump(
        record,
        Dumper=_Dumper,
        explicit_start=True,
        allow_unicode=True,
        sort_keys=False,
        default_flow_style=False,
        width=float("inf"),
    )
