import asyncio
import os
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pytest_agentv.errors import ProviderError
from pytest_agentv.providers.cli import CommandHealthcheck, HttpHealthcheck, run_healthcheck


class Handler(BaseHTTPRequestHandler):
    """Answers with the status that the path names; `/to` redirects."""

    def do_GET(self) -> None:
        if self.path == "/to":
            self.send_response(302)
            self.send_header("Location", "/204")
        elif self.path == "/login":
            login = b64encode(b"ada:pw#12345678").decode()
            self.send_response(200 if self.headers["Authorization"] == f"Basic {login}" else 401)
        else:
            self.send_response(int(self.path.rpartition("/")[2].partition("?")[0]))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        thread = threading.Thread(target=http_server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{http_server.server_port}"
        http_server.shutdown()
        thread.join()


def check(
    healthcheck: HttpHealthcheck | CommandHealthcheck, timeout_seconds: float | None = None, **variables: str
) -> None:
    environment = {"PATH": os.environ["PATH"], **variables}
    asyncio.run(
        run_healthcheck(healthcheck, target_name="agent", environment=environment, timeout_seconds=timeout_seconds)
    )


def fault(healthcheck: HttpHealthcheck | CommandHealthcheck, timeout_seconds: float | None = None) -> tuple[str, str]:
    with pytest.raises(ProviderError) as caught:
        check(healthcheck, timeout_seconds)
    prefix = "CLI healthcheck failed for 'agent': "
    assert str(caught.value).startswith(prefix)
    return str(caught.value).removeprefix(prefix), caught.value.kind


def test_the_proxy_of_the_targets_variables_is_asked(server: str) -> None:
    check(HttpHealthcheck(url="http://service.test/200"), HTTP_PROXY=server)

    with pytest.raises(ProviderError):
        check(HttpHealthcheck(url="http://service.test/200"), HTTP_PROXY=server, NO_PROXY="service.test")


def test_the_login_in_a_url_is_sent_and_not_shown(server: str) -> None:
    url = server.replace("//", "//ada:pw%2312345678@")
    place = server.removeprefix("http://")

    assert fault(HttpHealthcheck(url=f"{url}/404?key=abc")) == (
        f"GET http://{place}/404 answered 404, expected 2xx",
        "network",
    )
    check(HttpHealthcheck(url=f"{url}/login"))


@pytest.mark.parametrize(("own", "target"), [(0.2, 60.0), (None, 0.2)])
def test_a_server_that_does_not_answer_in_time_is_not_healthy(own: float | None, target: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"

        assert fault(HttpHealthcheck(url=url, timeout_seconds=own), target) == (
            f"GET {url} did not answer within 0.2s",
            "timeout",
        )


def test_a_server_that_talks_nonsense_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"nonsense\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        text, kind = fault(HttpHealthcheck(url=url))
        thread.join()

    assert text.startswith(f"GET {url} replied with what is no HTTP: ")
    assert kind == "network"
