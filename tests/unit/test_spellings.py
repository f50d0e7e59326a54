"""A secret is found however it is spelled."""

import base64
import html
import json
import time
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_agentv.model.secrets import MASK, Masker

SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, not ASCII": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "repr": lambda text: repr(text)[1:-1],
    "URL path": urllib.parse.quote,
    "URL": lambda text: urllib.parse.quote(text, safe=""),
    "form": urllib.parse.quote_plus,
    "HTML": html.escape,
}


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=6, max_size=30))
@example("p\"ss 'w' \\ ü 日本 $x/&<+>\U0001f600")
@example("sk-shell-0123456789abcdef")
@example("00000Ã")
def test_escaped(secret: str) -> None:
    if secret != secret.strip() or secret.startswith("-----"):
        return
    masker = Masker([secret])
    assert {name: masker.mask(f"<{spell(secret)}>") for name, spell in SPELLINGS.items()} == dict.fromkeys(
        SPELLINGS, f"<{MASK}>"
    )


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@settings(deadline=None)
@given(
    st.text(min_size=6, max_size=30).filter(lambda text: text == text.strip() and "\n" not in text),
    st.binary(max_size=9),
)
@example("pa?ss>wo~rd+/", b"user:")
def test_base64_alone_and_at_every_place_of_a_longer_text(
    encode: Callable[[bytes], bytes], secret: str, before: bytes
) -> None:
    content = secret.encode("utf-8", "surrogatepass")
    if len(secret.splitlines()) > 1 or len(secret) < 6 or secret.startswith("-----"):
        return
    masker = Masker([secret])
    assert masker.mask(f"x {encode(content).decode()} y") == "x *** y"
    longer = encode(before + content + b":after").decode()
    masked = masker.mask(longer)
    assert MASK in masked
    assert len(masked) <= len(longer) - len(content) + len(MASK)


def test_a_secret_of_several_lines_is_found_whole_and_in_lines() -> None:
    masker = Masker(["first-line-1\nsecond-line-2"])
    assert masker.mask(json.dumps("first-line-1\nsecond-line-2")) == '"***"'
    assert masker.mask("> second-line-2\n> first-line-1") == "> ***\n> ***"


def test_the_longest_secret_wins() -> None:
    assert Masker(["abcdef", "abcdefgh"]).mask("abcdefgh abcdef") == "*** ***"


def test_secrets_learned_later_are_masked_too() -> None:
    masker = Masker(["first-1"])
    assert masker.mask("first-1 second-2") == "*** second-2"
    masker.add(["second-2"])
    assert masker.mask("first-1 second-2") == "*** ***"


def test_other_texts_stay_the_very_same() -> None:
    masker = Masker(["sk-0123456789", 'p"ss&word'])
    text = 'sk-012345678 p"ss&wor {"a": "p\\\\"ss"} c2stMDEyMzQ1Njc='
    assert masker.mask(text) == text


def test_variables_that_appear_and_change_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    masker = Masker.of_environment()
    monkeypatch.setenv("AGENTV_TEST_TOKEN", "tok-1111-first")
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "test_a.py::test_a[http://me:user-pass-1@host] (call)")
    assert masker.mask("tok-1111-first") == "tok-1111-first"
    masker.look_again()
    monkeypatch.setenv("AGENTV_TEST_TOKEN", "tok-2222-second")
    masker.look_again()
    monkeypatch.delenv("AGENTV_TEST_TOKEN")
    masker.look_again()
    assert masker.mask("tok-1111-first tok-2222-second user-pass-1") == "*** *** user-pass-1"


def test_a_new_token_for_each_test_takes_little_time() -> None:
    masker = Masker()
    started = time.process_time()
    for number in range(100, 400):
        token = f"tok-{number * 7919}-x{number}"
        masker.add([token])
        assert masker.mask(f"answer {token}") == "answer ***"
    assert time.process_time() - started < 2  # 20 s if each new secret spelled all others again
