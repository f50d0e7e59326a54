"""A secret is found however it is spelled."""

import base64
import html
import json
import reprlib
import shlex
import time
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pytest_agentv.model.secrets import MASK, Masker


def _json_in_json(text: str) -> str:
    return json.dumps(json.dumps(text))[3:-3]


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, not ASCII": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON in JSON": _json_in_json,
    "repr": lambda text: repr(text)[1:-1],
    "ascii": lambda text: ascii(text)[1:-1],
    "bytes": lambda text: repr(text.encode())[2:-1],
    "URL path": urllib.parse.quote,
    "URL": lambda text: urllib.parse.quote(text, safe=""),
    "form": urllib.parse.quote_plus,
    "small hex": lambda text: urllib.parse.quote(text, safe="").lower(),
    "URL twice": lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe=""),
    "HTML": html.escape,
    "HTML by numbers": lambda text: html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
    "XML": lambda text: text.encode("ascii", "xmlcharrefreplace").decode(),
    "shell": shlex.quote,
}


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=6, max_size=30))
@example("p\"ss 'w' \\ ü 日本 $x/&<+>\U0001f600")
@example("sk-shell-0123456789abcdef")
@example("00000Ã")
def test_escaped(secret: str) -> None:
    if secret != secret.strip() or secret.startswith("-----"):
        return
    if set(secret) == {"<"}:
        return  # it begins before itself here
    masker, small = Masker([secret]), Masker([secret.lower()])
    wrong = {}
    for spelling, spell in SPELLINGS.items():
        is_small = spelling == "small hex"
        spelled = spell(secret.lower() if is_small else secret)
        if len(spelled.strip()) < 6:
            continue
        masked = (small if is_small else masker).mask(f"<{spelled}>")
        if masked != (f"<'{MASK}'>" if spelled.startswith("'") and spelling == "shell" else f"<{MASK}>"):
            wrong[spelling] = masked
    assert wrong == {}


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


PYTESTS = reprlib.Repr()
PYTESTS.maxstring = 30
"""As pytest shortens the values of an assertion."""

LIVE = "sk-live-AbCd1234EfGh5678IjKl9012MnOp"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("assert 'sk-live-AbCd...8IjKl9012MnOp' == 'x'", "assert '***' == 'x'"),
        (f"'the key is {LIVE[:18]}...d was not what we wanted'", "'the key is ***...d was not what we wanted'"),
        (f"'Nobody would ex...{LIVE[-18:]}'", "'Nobody would ex...***'"),
        (f"{LIVE[:30]}... and {LIVE[:8]}...{LIVE[-13:]}", "***... and ***"),
        (f"so: {LIVE}...", "so: ***..."),
        # Too little to matter, or to be sure.
        ("keys such as sk-live-...", "keys such as sk-live-..."),
        ("keys such as sk-live-AbCd...", "keys such as sk-live-AbCd..."),
        (f"the key sk-li...{LIVE[-4:]}", f"the key sk-li...{LIVE[-4:]}"),
        (f"{LIVE[1:13]}...{LIVE[-13:-1]}", f"{LIVE[1:13]}...{LIVE[-13:-1]}"),
        ("...", "..."),
    ],
)
def test_what_is_left_of_a_shortened_secret_is_masked(text: str, shown: str) -> None:
    assert Masker([LIVE]).mask(text) == shown


@given(st.text(st.characters(exclude_characters="'"), min_size=30, max_size=60))
@example(".0123456789abcdef.0123456789abcdef.")
@example('it\'s \\ "quoted" and longer than thirty')
def test_a_secret_that_pytest_shortens_leaves_nothing(secret: str) -> None:
    secret = f"q{secret.strip()}q"
    assume(len(secret.splitlines()) == 1 and "..." not in secret)
    shortened = PYTESTS.repr(secret)
    assume(shortened.count("...") == 1)
    left, right = (len(side) - 1 for side in shortened.split("..."))
    assert (min(left, right) >= 4, left + right >= 12) == (True, True)
    quote = shortened[0]
    assert Masker([secret]).mask(shortened) == f"{quote}{MASK}{quote}"


@given(st.lists(st.sampled_from(["...", "....", "sk-", "live", "-AbC", "p", "Op", "z", " "]), max_size=30))
def test_ordinary_texts_with_dots_stay_as_they_are(words: list[str]) -> None:
    """None shows more than eleven characters of the beginning, or two of the end."""
    text = "".join(words)
    assert Masker([LIVE, "https://hooks.slack.com/services/T0/B0/abcdefgh1234567"]).mask(text) == text


def test_shortened_texts_take_linear_time() -> None:
    masker = Masker(["ab" * 500 + "c", "." * 30 + "x" * 30, LIVE])
    texts = ["." * 200_000, "sk-live-AbCd..." * 20_000, "abab..." * 500, "...9012MnOp" * 20_000]
    started = time.process_time()
    for text in texts:
        masker.mask(text)
    assert time.process_time() - started < 2


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
