"""The HTTP client of models: proxies, certificates, sizes, redirects, connections."""

import asyncio
import contextlib
import gzip
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.providers.api.base import ApiRequest
from pytest_agentv.providers.api.client import HttpClient, RequestError, RequestFailure, find_proxy

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serving(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """Run a server whose POSTs and CONNECTs get an answer; yields its host and port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            answer(self)

        def do_CONNECT(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            """Keep standard error clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def post(
    url: str,
    environment: Mapping[str, str] | None = None,
    times: int = 1,
    headers: Mapping[str, str] = {"authorization": "Bearer k"},
) -> Any:
    async def run() -> Any:
        http = HttpClient("model 'm'", "target 't'", environment or {})
        try:
            for _ in range(times):
                found = await http.post(ApiRequest(url, headers, {"q": "ä"}))
            return found
        finally:
            await http.close()

    return asyncio.run(run())


def failure(url: str, environment: Mapping[str, str] | None = None, **keys: Any) -> RequestFailure:
    with pytest.raises(RequestError) as caught:
        post(url, environment, **keys)
    return caught.value.failure


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://api.example.com/v1", {}, None),
        ("https://api.example.com/v1", {"https": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.com/v1", {"https": "proxy:1"}, "http://proxy:1"),
        ("http://api.example.com/v1", {"https": "http://proxy:1"}, None),
        ("https://api.example.com/v1", {"all": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.com/v1", {"https": "http://proxy:1", "no": "example.com"}, None),
        ("https://api.example.com/v1", {"https": "http://proxy:1", "no": "*"}, None),
        ("https://api.example.com/v1", {"https": "http://proxy:1", "no": "ample.com"}, "http://proxy:1"),
        ("http://127.0.0.1:9/v1", {"http": "http://proxy:1", "no": "localhost,127.0.0.1"}, None),
    ],
)
def test_the_proxy_of_a_url(url: str, environment: dict[str, str], proxy: str | None) -> None:
    assert find_proxy(url, environment) == proxy


@pytest.mark.parametrize(
    "url", ["ftp://me:pw12345678@h/v1?key=abc", "http://me:pw12345678@127.0.0.1:99999/v1?key=abc", "localhost:11434/v1"]
)
def test_a_url_that_cannot_be_asked_is_told_without_what_may_be_secret(url: str) -> None:
    found = failure(url)

    assert found.message.startswith("model 'm' cannot be asked: ")
    assert "check the URL, the api_key and the headers of target 't'" in found.message
    assert "pw1234" not in found.message
    assert "abc" not in found.message
    assert (found.kind, found.is_network) == ("config", False)


def test_a_request_goes_through_the_proxy() -> None:
    seen: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.path)
        reply(handler, 200, b'{"ok": 1}')

    with serving(answer) as place:
        assert post("http://api.test/v1", {"http_proxy": f"http://{place}"}) == {"ok": 1}
    assert seen == ["http://api.test/v1"]


@pytest.mark.parametrize(("status", "kind"), [(407, "config"), (403, "auth")])
def test_a_proxy_that_refuses_a_user_is_not_asked_again(status: int, kind: str) -> None:
    with serving(lambda handler: reply(handler, status, b"")) as place:
        found = failure("https://api.test/v1", {"HTTPS_PROXY": f"http://me:pw12345678@{place}"})

    assert (found.kind, found.is_network, found.status) == (kind, False, status)
    assert found.message.startswith(f"the proxy before model 'm' replied HTTP {status}: ")
    assert "pw1234" not in found.message


def test_connections_are_reused() -> None:
    ports: list[int] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        ports.append(handler.client_address[1])
        reply(handler, 200, b"{}")

    with serving(answer) as place:
        post(f"http://{place}/v1", times=5)
    assert len(set(ports)) == 1


def test_a_huge_reply_is_refused_before_it_fills_the_memory() -> None:
    bomb = gzip.compress(b'{"a": "' + b"x" * 50_000_000 + b'"}')

    with serving(lambda handler: reply(handler, 200, bomb, content_encoding="gzip")) as place:
        found = failure(f"http://{place}/v1")

    assert found.kind == "crash"
    assert found.message == "the reply of model 'm' is too large: it has more than 10 MiB"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "model 'm' replied with an empty body"),
        (b"<html>", "model 'm' replied with what is no JSON: Expecting value (character 1)"),
        (b"[1]", "model 'm' replied with JSON that is no object, but a list"),
        (b"[" * 150_000, "model 'm' replied with what is no JSON: nested too deeply"),
    ],
)
def test_a_reply_that_is_no_json_object_is_a_crash(body: bytes, message: str) -> None:
    with serving(lambda handler: reply(handler, 200, body)) as place:
        found = failure(f"http://{place}/v1")

    assert (found.kind, found.message, found.is_network) == ("crash", message, False)


@pytest.mark.parametrize(
    ("headers", "said"),
    [({"x_policy": "x" * 70_000}, "Got more than 65536 bytes"), ({"Content_Length": "5"}, "Duplicate Content-Length")],
)
def test_a_reply_that_is_no_http_is_not_paid_for_again(headers: dict[str, str], said: str) -> None:
    with serving(lambda handler: reply(handler, 200, b'{"ok": 1}', **headers)) as place:
        found = failure(f"http://{place}/v1")

    assert found.message.startswith("model 'm' replied with what is no HTTP: ")
    assert said in found.message
    assert (found.kind, found.is_network) == ("crash", False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1, signed by itself, in one file."""
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file, "-out", file.with_suffix(".crt")),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl is missing")
    file.write_bytes(file.read_bytes() + file.with_suffix(".crt").read_bytes())
    return file


def test_a_certificate_that_nobody_trusts_is_final_and_says_what_to_do(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    with serving(lambda handler: reply(handler, 200, b"{}"), context) as place:
        found = failure(f"https://{place}/v1")

    assert (found.kind, found.is_network) == ("config", False)
    assert found.message.startswith("no secure connection to model 'm': ")
    assert found.message.endswith("(SSL_CERT_FILE names the certificates to trust)")


def test_a_company_certificate_is_trusted_when_a_variable_names_it(certificate: Path) -> None:
    """In a process of its own: OpenSSL reads the variable once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    code = """
import asyncio, sys
from pytest_agentv.providers.api.base import HttpRequest
from pytest_agentv.providers.api.client import HttpClient

async def main():
    client = HttpClient("m", "t", {})
    print((await client.exchange(HttpRequest("POST", sys.argv[1]))).status)
    await client.close()

asyncio.run(main())
"""
    with serving(lambda handler: reply(handler, 200, b"{}"), context) as place:
        environment = {**os.environ, "SSL_CERT_FILE": str(certificate.with_suffix(".crt"))}
        done = subprocess.run(
            [sys.executable, "-c", code, f"https://{place}/v1"],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout == "200\n"
