"""Fills the values of a case into the URL, headers and body of a request. Values are data and need no quotes."""

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote

from pytest_agentv.loading.variables.filling import has_template, render
from pytest_agentv.loading.variables.rendering import TemplateFault, as_text
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.messages import FilePart
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.cli.placeholders import KNOWN_PLACEHOLDER
from pytest_agentv.providers.media import encoded
from pytest_agentv.providers.python.question import conversation, prompt_text

NAMES: Final = ("prompt", "messages", "files", "eval_id", "attempt")
"""The names for templates."""

_REFERENCE: Final = re.compile(r"\$\{\{.*?\}\}")
_SHOWING: Final = re.compile(r"\{[{%][^}]*\b(?:messages|files)\b")
_SAMPLE: Final[JsonObject] = dict.fromkeys(NAMES, "")


def values_of(request: ProviderRequest) -> dict[str, Json]:
    """Return the values for templates.

    Reads pictures and PDFs: raises `ProviderError` for those that cannot be sent.
    """
    return {
        "prompt": prompt_text(request),
        "messages": conversation(request),
        "files": [_file(file) for file in request.prompt.media],
        "eval_id": request.eval_id,
        "attempt": request.attempt,
    }


def _file(file: FilePart) -> JsonObject:
    sent = encoded(file)
    return {"name": sent.name, "media_type": sent.media_type, "data": sent.data, "url": sent.url}


def fill_data(value: Json, values: JsonObject) -> Json:
    """Return plain data with its templates filled in. A text that is only one `{{ }}` becomes the value itself.

    Raises `TemplateFault`.
    """
    if isinstance(value, str):
        return render(value, values) if has_template(value) else value
    if isinstance(value, Mapping):
        return {key: fill_data(item, values) for key, item in value.items()}
    return [fill_data(item, values) for item in value] if isinstance(value, list) else value


def fill_url(text: str, values: JsonObject) -> str:
    """Return a URL with its templates filled in, percent-encoded. Raises `TemplateFault`."""
    if not has_template(text):
        return text
    encoded = {name: quote(as_text(value), safe="") if name in text else "" for name, value in values.items()}
    return as_text(render(text, encoded))


def shows_files(value: Json) -> bool:
    """Whether a template of plain data uses the messages or the files, which may be pictures and PDFs."""
    found: list[str] = []
    _each_text(value, lambda text: found.extend(_SHOWING.findall(text)))
    return bool(found)


def check_templates(value: Json) -> None:
    """Raise `ValueError` for a template of plain data that can never be filled."""
    _each_text(value, _check)


def _each_text(value: Json, check: Callable[[str], None]) -> None:
    if isinstance(value, str):
        check(value)
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            _each_text(item, check)


def _check(text: str) -> None:
    text = _REFERENCE.sub("", text)
    if found := KNOWN_PLACEHOLDER.search(text):
        name = found[1].lower() if found[1].lower() in NAMES else "prompt"
        raise ValueError(f"{found[0]} belongs into commands, and would be sent as it is; write {{{{ {name} }}}}")
    if not has_template(text):
        return
    try:
        render(text, _SAMPLE)
    except TemplateFault as fault:
        if str(fault).startswith(("unknown variable", "is no valid template")):
            raise ValueError(f"{fault} ({fault.hint})" if fault.hint else str(fault)) from None
