"""Templates with `{{ name }}` placeholders (agentv-formats 6.3)."""

import re
from collections.abc import Mapping
from typing import Final

_PLACEHOLDER: Final = re.compile(r"\{\{\s*([a-zA-Z0-9_]+)\s*\}\}")


def render_template(template: str, variables: Mapping[str, str]) -> str:
    """Fill in the variables in one pass, so that variables in their values stay. Unknown names stay unchanged."""
    return _PLACEHOLDER.sub(lambda match: variables.get(match[1], match[0]), template)


def template_variables(template: str) -> tuple[str, ...]:
    """Return the distinct names that a template uses, in the order of first use."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(template)))
