"""Templates with `{{ name }}` placeholders (agentv-formats 6.3)."""

import re
from collections.abc import Mapping
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\{\{\s*([a-zA-Z0-9_]+)\s*\}\}")


def render_template(template: str, variables: Mapping[str, str]) -> str:
    """Fill in the variables in one pass: values are not searched for variables, and unknown names stay as written."""
    return _PLACEHOLDER.sub(lambda match: variables.get(match[1], match[0]), template)


def template_variables(template: str) -> tuple[str, ...]:
    """Return the distinct names that a template uses, in the order of first use."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(template)))
