"""What the body of a reply holds: JSON, a text, or what is no answer at all."""

import json
import re
from collections.abc import Mapping
from typing import Final

from pytest_agentv.models.base import Json
from pytest_agentv.providers.apis.exchange import HttpReply
from pytest_agentv.providers.apis.failures import describe_no_json, shorten

_TITLE: Final = re.compile(r"(?is)<title[^>]*>(.*?)</title>")
_HTML: Final = re.compile(rb"(?is)\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body)[\s>]")
"""How a page begins. Its type does not tell: frameworks say `text/html` of any text."""
_JSON_STARTS: Final = (b"{", b"[", b'"')
"""How what is meant to be JSON begins: gateways call other texts JSON as well."""


class NoContentError(Exception):
    """The body is empty."""


def read_content(reply: HttpReply, *, needs_json: bool, takes_html: bool) -> Json:
    """Return the JSON of a body, or its text where it is none.

    Args:
        reply: A successful reply.
        needs_json: Whether only JSON will do.
        takes_html: Whether the request asked for HTML. Where it did not, a page is that of an error or a login.

    Raises `NoContentError`, and `ValueError` for what is no answer; the text follows "replied with".
    """
    kind = (reply.headers.get("content-type") or "").partition(";")[0].strip().lower()
    if not reply.content.strip():
        raise NoContentError
    if not takes_html and kind != "text/plain" and _HTML.match(reply.content):
        raise ValueError(_page(reply.text))
    try:
        return json.loads(reply.text if reply.charset else reply.content)
    except (ValueError, RecursionError) as error:
        if needs_json or (kind.endswith("json") and reply.content.lstrip().startswith(_JSON_STARTS)):
            raise ValueError(_no_json(error)) from None
        return reply.text


def asks_for_html(headers: Mapping[str, str]) -> bool:
    """Whether the headers of a request name HTML as what it takes; `headers` are in lower case."""
    return "html" in headers.get("accept", "").lower()


def _page(text: str) -> str:
    title = _TITLE.search(text)
    named = f" {shorten(title[1])!r}" if title else ""
    return f"an HTML page{named} (if that is the answer, add the header `Accept: text/html`)"


def _no_json(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return describe_no_json(error)
    return "what is no JSON: it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "what is no JSON: too deep"
