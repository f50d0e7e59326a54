"""The rule of docs/reference.md: which names and which values are those of secrets."""

import json
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.secrets import is_secret_name, is_secret_value, secrets_of

KEY_ALPHABET = string.ascii_letters + string.digits


SECRETS = """\
OPENAI_KEY AZURE_OPENAI_API_KEY API_KEY API_KEY_2 OPENAIAPIKEY api_key apiKey x-api-key GH_PAT
GITHUB_TOKEN GITHUBTOKEN accessToken HF_TOKEN BASIC_AUTH AUTH_HEADER AUTHORIZATION MY_SECRET
CLIENT_SECRETS AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID GCP_CREDENTIALS DB_PASSWORD PGPASSWORD DB_PWD
DB_PASS SSHPASS CARD_PIN KEY_PASSPHRASE PASSWORD_1 SLACK_WEBHOOK_URL SESSION_COOKIE CI_JOB_JWT
PRIVATE_KEY SSH_KEY_PROD
"""
OTHERS = """\
MAX_OUTPUT_TOKENS max_output_tokens maxOutputTokens INPUT_TOKENS MAX_TOKEN MIN_SECRET TOKEN_COUNT
TOKEN_LIMIT TOKEN_URL TOKENIZERS_PARALLELISM API_KEY_FILE SECRET_NAME AUTH_MODE PWD OLDPWD PATH
SSH_AUTH_SOCK GIT_AUTHOR_NAME KEYBOARD MONKEY key SORT_KEY PUBLIC_KEY BYPASS COMPASS PATIENT DB_URL _ 7
"""


def test_names_of_secrets_and_of_other_things() -> None:
    assert [name for name in SECRETS.split() if not is_secret_name(name)] == []
    assert [name for name in [*OTHERS.split(), ""] if is_secret_name(name)] == []


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "HF_TOKEN", "api_key"])
def test_values_that_are_no_secrets(name: str) -> None:
    values = [
        *("ollama", "EMPTY", "lm-studio", "dummy-key", "not-needed", "sk-no-key-required", "none", "test", "no-key"),
        *("128000", "1", "0.75", "1e6", "true", "False", "2026-01-31", "127.0.0.1:8080", "", "   ", "abc", "a1b2c3d"),
        *("xxxxxxxxxxxx", "************", "your-api-key-here", "${OPENAI_API_KEY}", "<your key 123>", "default"),
    ]
    assert [secret for value in values for secret in secrets_of(name, value)] == []


REAL = """\
hf_abcDEFghiJKLmno d41d8cd98f00b204e9800998ecf8427e sk-1234567890 ghp_16C7e42F292c6912E7710c838347Ae178B4a
wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY qwrtplkjhgfdszxcv 12345678901234567890 literal-key-3f9c
"""


def test_values_that_are_secrets() -> None:
    for value in REAL.split():
        assert list(secrets_of("OPENAI_API_KEY", f" {value}\n")) == [value]


def test_a_password_may_be_a_word_or_a_number_but_no_well_known_one() -> None:
    for value in ("84739201", "hunter22", "sunshines", "correct-horse", "x7$kQz", "2026-01-31"):
        assert list(secrets_of("DB_PASSWORD", value)) == [value]
    for value in ("postgres", "changeme", "password", "1234567", "short", "dummy-key", "not-needed"):
        assert list(secrets_of("DB_PASSWORD", value)) == []


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("DB_URL", "postgres://me:pw4rdXX@host:5432/db?sslmode=on", {"pw4rdXX"}),
        ("HTTPS_PROXY", "http://me:p%40ss12word@proxy:80", {"p%40ss12word", "p@ss12word"}),
        ("DB_URL", "postgres://postgres:postgres@localhost/db", set()),
        ("HOMEPAGE", "https://example.org:8080/path@2x?page=12345678", set()),
        ("SENTRY_DSN", "https://0123456789abcdef0123@o1.ingest.example/1", {"0123456789abcdef0123"}),
        ("MYSQL_DSN", "root:pa55word@tcp(db:3306)/x", {"pa55word"}),
        ("PG_DSN", "host=x password='pw 55word' user=y", {"pw 55word"}),
        ("A_CONNECTION_STRING", "Server=tcp:x;User ID=me;Password=abc12345;", {"abc12345"}),
        ("STORAGE_CONNECTION_STRING", "Name=n;AccountKey=ab12+/cd34==;Suffix=s", {"ab12+/cd34=="}),
        ("UPLOAD_URL", "https://x.example/y?sv=1&sig=abc%2Fdef123", {"abc%2Fdef123", "abc/def123"}),
        ("GEMINI", "https://x.example/v1?alt=json&key=AIzaSyA0123456789", {"AIzaSyA0123456789"}),
        ("FUNCTION_URL", "https://x.example/api/ask?code=aB3dE5gH7jK9mN1p&user=ada", {"aB3dE5gH7jK9mN1p"}),
        ("TICKET", "https://x.example/browse?key=SHOP-12345&code=en-US-2024", set()),
        ("PAGE", "https://x.example/?key=chapter-two&code=404&monkey=aB3dE5gH7jK9mN1p", set()),
        ("BASIC_AUTH", "user:s3cretpass", {"user:s3cretpass", "s3cretpass"}),
        ("AUTH_HEADER", "Bearer sk-abc12345678", {"Bearer sk-abc12345678", "sk-abc12345678"}),
    ],
)
def test_parts_of_values(name: str, value: str, secrets: set[str]) -> None:
    assert set(secrets_of(name, value)) == secrets


@pytest.mark.parametrize("text", ["x" * 400_000, "x" * 400_000 + "://", "a://" * 100_000])
def test_a_long_text_takes_time_that_grows_with_its_length_only(text: str) -> None:
    before = time.thread_time()
    assert list(secrets_of("response", text)) == []
    assert time.thread_time() - before < 5  # quadratic work takes minutes


def test_the_keys_within_credentials_in_json_are_secrets() -> None:
    text = json.dumps(
        {"type": "service_account", "deep": [{"private_key": "MIIEvQIBADANBg1"}], "project": "shop-17-eu"}
    )
    assert set(secrets_of("GOOGLE_CREDENTIALS", text)) == {text, "MIIEvQIBADANBg1"}


@given(st.integers(-(10**14), 10**14) | st.floats(allow_nan=False, width=16) | st.booleans())
def test_no_number_and_no_boolean_is_the_secret_of_a_key(value: object) -> None:
    assert not is_secret_value(str(value))


@given(st.text(KEY_ALPHABET, min_size=20, max_size=60).filter(lambda text: len(set(text)) > 4))
def test_every_key_of_letters_and_digits_is_a_secret(value: str) -> None:
    if value.isalpha() or value.isdigit():  # words and numbers have limits of their own, 14 letters and 15 digits
        assert is_secret_value(value)
    assert is_secret_value(f"{value}7a")


@given(st.text(), st.text())
def test_any_text_can_be_asked_about(name: str, value: str) -> None:
    for secret in secrets_of(name, value):
        assert len(secret) >= 6


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("Authorization: Bearer sk-Zq9S01234", "the text 'Authorization: Bearer ***'"),
        ("ftp://x.test/?token=sk-Zq9S01234", "the text 'ftp://x.test/?token=***'"),
        ("x.test/ask?key=sk-Zq9S01234", "the text 'x.test/ask?key=***'"),
        ("ada:hunter2Passw0rd@x.test/ask", "the text 'ada:***@x.test/ask'"),
        ("Bearer of good news", "the text 'Bearer of good news'"),
        ("x.test/ask?page=2", "the text 'x.test/ask?page=2'"),
    ],
)
def test_a_fault_of_a_file_shows_no_secret_of_a_wrong_value(value: str, shown: str) -> None:
    assert describe_value(value) == shown


def test_a_fault_of_a_file_cuts_no_secret_in_half() -> None:
    assert "sk-" not in describe_value("Authorization: Bearer sk-Zq9Secret0123456789abcdefXY")
