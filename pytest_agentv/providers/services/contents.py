"""Reads the body of a reply: JSON, a text, or a fault."""

import json
import re
from collections.abc import Mapping
from typing import Final

from pytest_agentv.models.base import Json
from pytest_agentv.providers.apis.exchange import HttpReply
from pytest_agentv.providers.apis.failures import describe_no_json, shorten

_TITLE: Final = re.compile(r"(?is)<title[^>]*>(.*?)</title>")
_HTML: Final = re.compile(rb"(?is)\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body)[\s>]")
"""The beginning of an HTML page. The content type does not tell: frameworks send any text as `text/html`."""
_OBJECT: Final = re.compile(r"\{\s*(?:\"|$)")
_JSON_STARTS: Final = (b"{", b"[", b'"')
"""The beginning of JSON. The content type does not tell: gateways send other texts as JSON."""


class NoContentError(Exception):
    """The body is empty."""


def read_content(reply: HttpReply, *, needs_json: bool, takes_html: bool) -> Json:
    """Return the JSON of a body, else its text. A number that is not sent as JSON is a text.

    Args:
        reply: A successful reply.
        needs_json: Whether only JSON is allowed.
        takes_html: Whether the request asked for HTML. If not, a page is an error or a login.

    Raises `NoContentError`, and `ValueError` for a body that is no answer. Its text follows "replied with".
    """
    kind = (reply.headers.get("content-type") or "").partition(";")[0].strip().lower()
    if not reply.content.strip():
        raise NoContentError
    if not takes_html and kind != "text/plain" and _HTML.match(reply.content):
        raise ValueError(_page(reply.text))
    try:
        value: Json = json.loads(reply.text if reply.charset else reply.content)
    except (ValueError, RecursionError) as error:
        if kind == "text/event-stream":
            raise ValueError("a stream of events (write `stream: sse` to read it)") from None
        is_json = kind.endswith("json") and reply.content.lstrip().startswith(_JSON_STARTS)
        if needs_json or is_json or (kind != "text/plain" and is_cut_object(reply.text)):
            raise ValueError(_no_json(error)) from None
        return reply.text
    is_text = isinstance(value, int | float) and not needs_json and not kind.endswith("json")
    return reply.text if is_text else value


def is_cut_object(text: str) -> bool:
    """Whether a text is the beginning of a JSON object. A connection that breaks off often looks like a proper end."""
    start = text.lstrip()
    if not _OBJECT.match(start):
        return False
    try:
        json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        return True
    return False  # other words follow


def asks_for_html(headers: Mapping[str, str]) -> bool:
    """Whether the headers of a request accept HTML; `headers` are in lower case."""
    return "html" in headers.get("accept", "").lower()


def _page(text: str) -> str:
    title = _TITLE.search(text)
    named = f" {shorten(title[1])!r}" if title else ""
    return f"an HTML page{named} (if that is the answer, add the header `Accept: text/html`)"


def _no_json(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return describe_no_json(error)
    return "what is no JSON: it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "what is no JSON: too deep"
