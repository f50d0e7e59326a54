"""Images in messages and answers: named in the text, and shown where that is safe."""

import base64
import json
from typing import Any

import pytest

from pytest_agentv.model.messages import Message
from pytest_agentv.reports.html import page
from pytest_agentv.reports.html.page import Gallery
from pytest_agentv.store.writers import LONGEST_TEXT, Image, bounded_messages, image_of


def png(width: int = 2, height: int = 2, padding: int = 0) -> str:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4)
    return base64.b64encode(head + bytes(padding)).decode()


JPEG = base64.b64encode(b"\xff\xd8\xff\xe0\0\x04\0\0\xff\xc0\0\x0b\x08\0\x20\0\x10\0\0\0").decode()
GIF = base64.b64encode(b"GIF89a\x01\0\x01\0").decode()
PNG = png()
URI = f"data:image/png;base64,{PNG}"

SHAPES: dict[str, dict[str, Any]] = {
    "openai": {"type": "image_url", "image_url": {"url": URI}},
    "responses": {"type": "input_image", "image_url": URI},
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    "gemini": {"inlineData": {"mimeType": "image/png", "data": PNG}},
    "mcp": {"type": "image", "data": PNG, "mimeType": "image/png"},
    "plain": {"type": "image", "value": URI},
}


@pytest.mark.parametrize("name", SHAPES)
def test_an_image_is_found_in_the_shape_of_any_api(name: str) -> None:
    assert image_of(SHAPES[name]) == Image("image", "image/png", 24, PNG)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"type": "image", "value": "photos/tent.png"}, "photos/tent.png"),
        ({"inline_data": {"mime_type": "audio/wav", "data": "AAAA"}}, None),
    ],
)
def test_other_parts_are_named_or_left(part: Any, text: str | None) -> None:
    image = image_of(part)
    assert (None if image is None else image.text) == text


def shown(value: Any) -> tuple[Any, list[bool]]:
    found, images = Gallery().take_out(value)
    return found, ["source" in image for image in images]


@pytest.mark.parametrize("value", [*SHAPES.values(), [URI], f"Here: ![tent]({URI}).", {"deep": [{"er": URI}]}])
def test_bytes_give_way_to_a_name(value: Any) -> None:
    found, images = shown(value)
    assert PNG not in json.dumps(found)
    assert images == [True]


@pytest.mark.parametrize(
    ("data", "is_shown"),
    [
        (PNG, True),
        (JPEG, True),
        (GIF, True),
        (png(padding=page.MOST_BYTES), False),
        (base64.b64encode(b"<svg onload=alert(1)>").decode(), False),
        ("not base64 !", False),
    ],
)
def test_only_what_a_browser_draws_safely_is_shown(data: str, *, is_shown: bool) -> None:
    part = {"type": "image", "source": {"media_type": "image/svg+xml", "data": data}}
    assert shown(part)[1] == [is_shown]


def test_a_report_shows_some_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_IN_ALL", 50)
    gallery = Gallery()
    assert ["source" in image for _ in range(3) for image in gallery.take_out(URI)[1]] == [True, True, False]
    assert gallery.is_used


def test_a_long_message_keeps_its_words_and_names_its_image() -> None:
    content = [
        {"type": "text", "text": "This is the tent."},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(padding=9_000)}"}},
    ]
    [kept] = bounded_messages([Message("assistant", content).to_plain()])
    assert kept["content"] == [content[0], {"type": "image", "name": "image", "media_type": "image/png", "size": 9_024}]
    assert len(json.dumps(kept)) < LONGEST_TEXT
