"""The HTTP client of models: proxies, certificates, sizes, redirects, connections."""

import asyncio
import contextlib
import gzip
import json
import socket
import ssl
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.providers.api.base import ApiRequest, HttpReply, HttpRequest
from pytest_agentv.providers.api.client import HttpClient, find_proxy
from pytest_agentv.runtime.files import Decoder
from pytest_agentv.runtime.retry import RequestError, RequestFailure

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


def post(url: str, environment: Mapping[str, str] | None = None, times: int = 1) -> Any:
    async def run() -> Any:
        http = HttpClient("model 'm'", "target 't'", environment or {})
        try:
            for _ in range(times):
                found = await http.post(ApiRequest(url, {"authorization": "Bearer k"}, {"q": "ä"}))
            return found
        finally:
            await http.close()

    return asyncio.run(run())


def failure(url: str, environment: Mapping[str, str] | None = None) -> RequestFailure:
    with pytest.raises(RequestError) as caught:
        post(url, environment)
    return caught.value.failure


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://api.example.com/v1", {}, None),
        ("https://api.example.com/v1", {"HTTPS_PROXY": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.com/v1", {"https_proxy": "proxy:1"}, "http://proxy:1"),
        ("http://api.example.com/v1", {"HTTPS_PROXY": "http://proxy:1"}, None),
        ("http://api.example.com/v1", {"HTTP_PROXY": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.com/v1", {"ALL_PROXY": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.com/v1", {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "example.com"}, None),
        ("https://api.example.com/v1", {"HTTPS_PROXY": "http://proxy:1", "no_proxy": "*"}, None),
        ("https://api.example.com/v1", {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "ample.com"}, "http://proxy:1"),
        ("http://127.0.0.1:9/v1", {"HTTP_PROXY": "http://proxy:1", "NO_PROXY": "localhost,127.0.0.1"}, None),
    ],
)
def test_the_proxy_of_a_url(url: str, environment: dict[str, str], proxy: str | None) -> None:
    assert find_proxy(url, environment) == proxy


@pytest.mark.parametrize(
    ("url", "exceptions", "is_direct"),
    [
        ("http://10.1.2.3/v1", "10.0.0.0/8", True),
        ("http://11.1.2.3/v1", "10.0.0.0/8", False),
        ("http://llm.test/v1", "10.0.0.0/8,127.0.0.1/8", False),
        ("http://[fd00::1]:8080/v1", "fd00::/8", True),
        ("http://[fd00::1]:8080/v1", "fd00::1", True),
        ("http://[fd00::1]:8080/v1", "[fd00::1]", True),
        ("http://[fd00::1]:8080/v1", "[fd00::1]:8080", True),
        ("http://[fd00::1]:8080/v1", "[fd00::1]:9", False),
        ("http://llm.example.com:8080/v1", "llm.example.com:8080", True),
        ("http://llm.example.com:8080/v1", "llm.example.com:9", False),
        ("https://llm.example.com/v1", "llm.example.com:443", True),
        ("http://llm.example.com/v1", "*.example.com", True),
        ("http://llm.example.com/v1", ".example.com", True),
        ("http://llm.example.com./v1", "Example.COM", True),
        ("http://llm.example.com/v1", "a.test, *", True),
        ("http://llm.example.com/v1", "a.test llm.example.com", True),
        ("http://llm.example.com/v1", ",", False),
        ("http://llm.example.com/v1", "example.com/v1", False),
        ("http://llm.example.com/v1", "..", False),
        ("http://localhost:11434/v1", "", False),
        ("http://127.0.0.1:11434/v1", "", False),
        ("http://[::1]:11434/v1", "", False),
        ("http://localhost.example.com/v1", "", False),
    ],
)
def test_hosts_that_are_asked_without_a_proxy(url: str, exceptions: str, is_direct: bool) -> None:
    environment = {"HTTP_PROXY": " http://proxy:1 ", "HTTPS_PROXY": "http://proxy:1", "NO_PROXY": exceptions}

    assert find_proxy(url, environment) == (None if is_direct else "http://proxy:1")


def test_a_proxy_that_speaks_no_http_is_told_without_its_password() -> None:
    found = failure("http://api.test/v1", {"ALL_PROXY": "socks5h://me:pw12345678@127.0.0.1:1"})

    assert found.message == (
        "model 'm' cannot be asked: its proxy speaks socks5h, and only http:// and https:// proxies are supported "
        "(check ALL_PROXY, HTTP_PROXY and HTTPS_PROXY)"
    )
    assert (found.kind, found.is_network) == ("config", False)


@pytest.mark.parametrize("password", ["pw12345678#x", "pw12345678/x", "pw12345678?x", "pw12345678@x#"])
def test_a_proxy_whose_url_is_none_is_told_without_its_password(password: str) -> None:
    found = failure("http://api.test/v1", {"HTTP_PROXY": f"http://me:{password}@127.0.0.1:1"})

    assert "pw1234" not in found.message
    if "no URL" in found.message:
        assert found.message.endswith("is no URL that can be asked (check ALL_PROXY, HTTP_PROXY and HTTPS_PROXY)")
        assert (found.kind, found.is_network) == ("config", False)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ftp://me:pw12345678@h/v1?key=abc", "ftp://h/v1 does not begin with"),
        ("http://127.0.0.1:99999/v1?key=abc", "http://127.0.0.1:99999/v1 is no URL that can be asked (check the URL"),
        (
            "http://me:pw#12345678@127.0.0.1:99999/v1",
            "http://127.0.0.1:99999/v1 is no URL that can be asked (check the",
        ),
    ],
)
def test_a_url_that_cannot_be_asked_is_told_without_what_may_be_secret(url: str, shown: str) -> None:
    found = failure(url)

    assert found.message.startswith(f"model 'm' cannot be asked: {shown}")
    assert (found.kind, found.is_network) == ("config", False)


@pytest.mark.parametrize("url", ["localhost:11434/v1", "//127.0.0.1/v1", "127.0.0.1:1/v1", "ftp://h/v1", "/v1"])
def test_a_url_without_a_scheme_is_final_and_says_what_is_missing(url: str) -> None:
    found = failure(url)

    assert (
        found.message
        == f"model 'm' cannot be asked: {url} does not begin with http:// or https:// (check the URL of target 't')"
    )
    assert (found.kind, found.is_network) == ("config", False)


def test_a_key_of_two_lines_is_told_as_such() -> None:
    async def run(url: str) -> None:
        http = HttpClient("model 'm'", "target 't'", {})
        try:
            await http.post(ApiRequest(url, {"authorization": "Bearer a\nb"}, {}))
        finally:
            await http.close()

    with serving(lambda handler: reply(handler, 200, b"{}")) as place, pytest.raises(RequestError) as caught:
        asyncio.run(run(f"http://{place}/v1"))

    assert "(check the api_key and the headers of target 't')" in caught.value.failure.message
    assert caught.value.failure.kind == "config"


def test_a_request_goes_through_the_proxy() -> None:
    seen: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.path)
        reply(handler, 200, b'{"ok": 1}')

    with serving(answer) as place:
        assert post("http://api.test/v1", {"HTTP_PROXY": f"http://{place}"}) == {"ok": 1}
    assert seen == ["http://api.test/v1"]


def test_a_proxy_that_refuses_to_connect_is_a_failure_of_the_network() -> None:
    with serving(lambda handler: reply(handler, 502, b"")) as place:
        found = failure("https://api.test/v1", {"HTTPS_PROXY": f"http://{place}"})

    assert (found.kind, found.is_network) == ("network", True)
    assert "502" in found.message


@pytest.mark.parametrize(
    ("status", "kind", "hint"),
    [(407, "config", " (check the login in ALL_PROXY, HTTP_PROXY and HTTPS_PROXY)"), (403, "auth", "")],
)
def test_a_proxy_that_refuses_a_user_is_not_asked_again(status: int, kind: str, hint: str) -> None:
    with serving(lambda handler: reply(handler, status, b"")) as place:
        found = failure("https://api.test/v1", {"HTTPS_PROXY": f"http://{place}"})

    assert (found.kind, found.is_network, found.status) == (kind, False, status)
    assert found.message.startswith(f"the proxy before model 'm' replied HTTP {status}: ")
    assert found.message.endswith(hint)


def test_where_a_redirect_leads_is_told_without_what_may_be_secret() -> None:
    place = "https://me:pw12345678@api.test/v2?key=abc"
    with serving(lambda handler: reply(handler, 308, b"", location=place)) as server:
        found = failure(f"http://{server}/v1")

    assert found.message == (
        "model 'm' replied HTTP 308: Permanent Redirect "
        "(it leads to https://api.test/v2: if that is right, name it in target 't')"
    )


@pytest.mark.parametrize("body", [b'data: {"choices": []}\n\n', b": PROCESSING\n\ndata: {}\n\n", b"event: ping\n\n"])
def test_a_stream_that_was_not_asked_for_is_told(body: bytes) -> None:
    with serving(lambda handler: reply(handler, 200, body)) as place:
        found = failure(f"http://{place}/v1")

    assert found.message == "model 'm' replied with a stream of events, which it was not asked for"
    assert (found.kind, found.is_network) == ("crash", False)


def test_a_redirect_is_not_followed_with_the_key() -> None:
    seen: list[str] = []

    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["authorization"])
        reply(handler, 200, b"{}")

    with serving(elsewhere) as other, serving(lambda h: reply(h, 307, b"", location=f"http://{other}/")) as place:
        found = failure(f"http://{place}/v1")

    assert found.status == 307
    assert seen == []


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


def test_a_large_reply_is_read() -> None:
    body = json.dumps({"text": "x" * 3_000_000}).encode()

    with serving(lambda handler: reply(handler, 200, body)) as place:
        assert len(post(f"http://{place}/v1")["text"]) == 3_000_000


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "model 'm' replied with an empty body"),
        (b"<html>", "model 'm' replied with what is no JSON: Expecting value (character 1)"),
        (b"[1]", "model 'm' replied with JSON that is no object, but a list"),
        (b"\xff\xfe\xfa", "model 'm' replied with what is no JSON: UnicodeDecodeError"),
        (b"[" * 150_000, "model 'm' replied with what is no JSON: RecursionError"),
    ],
)
def test_a_reply_that_is_no_json_object_is_a_crash(body: bytes, message: str) -> None:
    with serving(lambda handler: reply(handler, 200, body)) as place:
        found = failure(f"http://{place}/v1")

    assert (found.kind, found.message, found.is_network) == ("crash", message, False)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_reply_that_cannot_be_decoded_is_not_paid_for_again(encoding: str) -> None:
    with serving(lambda handler: reply(handler, 200, b"what is this?", content_encoding=encoding)) as place:
        found = failure(f"http://{place}/v1")

    assert (found.kind, found.is_network) == ("crash", False)
    assert found.message.startswith("model 'm' replied with what cannot be decoded: ")
    assert encoding in found.message


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_an_error_that_cannot_be_decoded_still_tells_its_status(encoding: str) -> None:
    with serving(lambda handler: reply(handler, 503, b"overloaded", content_encoding=encoding)) as place:
        found = failure(f"http://{place}/v1")

    assert (found.kind, found.status) == ("network", 503)
    assert found.message.startswith("model 'm' replied HTTP 503")


def hang_up(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    """Send less than announced."""
    handler.send_response(status)
    handler.send_header("content-length", "500")
    handler.end_headers()
    handler.wfile.write(body)
    handler.close_connection = True


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (302, "config"), (503, "network")])
def test_an_error_that_is_cut_still_tells_its_status(status: int, kind: str) -> None:
    with serving(lambda handler: hang_up(handler, status, b'{"error')) as place:
        found = failure(f"http://{place}/v1")

    assert (found.kind, found.status, found.is_network) == (kind, status, False)
    assert found.message.startswith(f"model 'm' replied HTTP {status}")


def test_an_answer_that_is_cut_is_a_failure_of_the_network() -> None:
    with serving(lambda handler: hang_up(handler, 200, b'{"a": 1}')) as place:
        found = failure(f"http://{place}/v1")

    assert (found.kind, found.status, found.is_network) == ("network", None, True)


@pytest.mark.parametrize("status", [200, 201, 202, 203])
def test_an_answer_may_have_any_status_of_success(status: int) -> None:
    """Other statuses than 200 lost answers that had been paid for."""
    with serving(lambda handler: reply(handler, status, b'{"a": 1}')) as place:
        assert post(f"http://{place}/v1") == {"a": 1}


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": lambda data: zlib.compress(data, wbits=-zlib.MAX_WBITS),
}


def exchanged(place: str, *, is_stream: bool = False) -> HttpReply:
    async def run() -> HttpReply:
        http = HttpClient("model 'm'", "target 't'", {})
        try:
            return await http.exchange(HttpRequest("POST", f"http://{place}/v1", is_stream=is_stream))
        finally:
            await http.close()

    return asyncio.run(run())


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_reply_whose_encoding_ends_early_is_no_answer(encoding: str) -> None:
    """Its length is as announced. A text cut in gzip was an answer."""
    text = "".join(map(str, range(5_000))).encode()
    body = ENCODINGS[encoding](text)
    bodies = iter((body, body[:-1], body[: len(body) // 2], body[:3]))
    with serving(lambda handler: reply(handler, 200, next(bodies), content_encoding=encoding)) as place:
        assert exchanged(place).content == text
        for _ in range(3):
            with pytest.raises(RequestError) as caught:
                exchanged(place)
            found = caught.value.failure
            name = encoding.lower().removeprefix("x-")
            message = f"model 'm' replied with what cannot be decoded: its {name} ends early"
            assert (found.kind, found.message, found.is_network) == ("crash", message, False)


def test_encoded_replies_are_read_whole_and_as_far_as_they_matter() -> None:
    parts = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0"
    stream = zlib.compress(b"data: 1\n\ndata: [DONE]\n\n")
    many = gzip.compress(b"x" * 30_000_000)
    replies = {
        "parts": (200, parts, "gzip"), "empty": (200, b"", "gzip"), "busy": (503, gzip.compress(b"busy")[:-9], "gzip"),
        "stream": (200, stream[:-4], "deflate"), "many": (200, many, "gzip"), "odd": (200, b"as it is", "aws-chunked"),
    }  # fmt: skip
    found = {}
    for name, (status, body, encoding) in replies.items():
        with serving(lambda handler: reply(handler, status, body, content_encoding=encoding)) as place:  # noqa: B023
            try:
                found[name] = exchanged(place, is_stream=name == "stream").content
            except RequestError as error:
                found[name] = error.failure.message
    assert found == {
        "parts": b"one two",
        "empty": b"",
        "busy": b"busy",
        "stream": b"data: 1\n\ndata: [DONE]\n\n",
        "many": "the reply of model 'm' is too large: it has more than 10 MiB",
        "odd": b"as it is",
    }


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_pieces_of_an_encoded_reply_may_end_anywhere(name: str) -> None:
    body = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0" if name == "gzip" else zlib.compress(b"one two")
    for at in range(len(body)):
        decoder = Decoder(name)
        pieces = [piece for part in (body[:at], body[at:]) for piece in decoder.decode(part)]
        decoder.check_whole()
        assert b"".join(pieces) == b"one two"


def test_a_reply_with_long_headers_is_read() -> None:
    with serving(lambda handler: reply(handler, 200, b'{"ok": 1}', x_policy="x" * 60_000)) as place:
        assert post(f"http://{place}/v1") == {"ok": 1}


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


def test_a_server_that_hangs_up_is_a_failure_of_the_network() -> None:
    with serving(lambda handler: handler.connection.shutdown(socket.SHUT_RDWR)) as place:
        found = failure(f"http://{place}/v1")

    assert (found.kind, found.is_network) == ("network", True)


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


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_company_certificate_is_trusted_when_a_variable_names_it(certificate: Path, variable: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    with serving(lambda handler: reply(handler, 200, b"{}"), context) as place:
        assert post(f"https://{place}/v1", {variable: str(certificate.with_suffix(".crt"))}) == {}


def test_a_certificate_that_nobody_trusts_is_final_and_says_what_to_do(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    with serving(lambda handler: reply(handler, 200, b"{}"), context) as place:
        found = failure(f"https://{place}/v1")

    assert (found.kind, found.is_network) == ("config", False)
    assert found.message.endswith("(name its issuer's certificate in SSL_CERT_FILE)")


def test_a_certificate_of_another_host_is_not_a_matter_of_trust(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    with serving(lambda handler: reply(handler, 200, b"{}"), context) as place:
        port = place.rpartition(":")[2]
        found = failure(f"https://localhost:{port}/v1", {"SSL_CERT_FILE": str(certificate.with_suffix(".crt"))})

    assert "certificate is not valid for 'localhost'" in found.message
    assert "name its issuer's certificate" not in found.message
    assert (found.kind, found.is_network) == ("config", False)


def test_a_server_that_demands_a_client_certificate_is_told_as_such(certificate: Path) -> None:
    """In TLS 1.3 the client learns that after its handshake, when it waits for the reply."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=True)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(10_000):  # until the client closes, so that the alert arrives
                    incoming.write(data)
                    with contextlib.suppress(ssl.SSLError):
                        tls.do_handshake()
                    connection.sendall(outgoing.read())

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        trusted = {"SSL_CERT_FILE": str(certificate.with_suffix(".crt"))}
        found = failure(f"https://127.0.0.1:{server.getsockname()[1]}/v1", trusted)
        thread.join()

    assert found.message.startswith("the server of model 'm' demands a client certificate, which is not supported: ")
    assert (found.kind, found.is_network) == ("config", False)


@pytest.mark.parametrize(
    ("reply_bytes", "kind", "end"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "config", "(does it speak http:// only? check the URL of target 't')"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "config", "]"),  # an alert: protocol version
        (b"\x15\x03\x03\x00\x02\x02\x50", "network", "]"),  # an alert: internal error
    ],
)
def test_a_server_without_tls_is_told_as_such(reply_bytes: bytes, kind: str, end: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(reply_bytes)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        found = failure(f"https://127.0.0.1:{server.getsockname()[1]}/v1")
        thread.join()

    assert found.message.startswith("no secure connection to the server of model 'm': ")
    assert found.message.endswith(end)
    assert (found.kind, found.is_network) == (kind, kind == "network")


def test_a_server_that_hangs_up_before_it_speaks_tls_is_a_failure_of_the_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(1000)
            connection.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        found = failure(f"https://{place}/v1")
        thread.join()

    assert found.message == f"no whole reply from model 'm': Cannot connect to host {place}"
    assert (found.kind, found.is_network) == ("network", True)


def test_a_bundle_that_is_missing_is_an_error_of_the_configuration() -> None:
    found = failure("https://127.0.0.1:9/v1", {"SSL_CERT_FILE": "/nowhere.pem"})

    assert found.kind == "config"
    assert "SSL_CERT_FILE=/nowhere.pem cannot be read as certificates" in found.message
