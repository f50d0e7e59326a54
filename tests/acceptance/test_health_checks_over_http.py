"""A target may be probed at a URL: with a login, through a proxy, and within a time."""

import socket
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

LOGIN = b64encode(b"ada:pw#12345678").decode()


class Handler(BaseHTTPRequestHandler):
    """Lets nobody in but Ada, whatever the host; behind a wrong path is nothing."""

    def do_GET(self):
        path = self.path.partition("?")[0]
        is_known = self.headers["Authorization"] == f"Basic {LOGIN}" or path.startswith("http://service.test")
        self.send_response(404 if path.endswith("/nothing") else 200 if is_known else 401)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def place():
    """Return host and port of a server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def probed(project, *urls, of_check="", of_target=""):
    """Run a case for each URL, whose target is probed there."""
    command = f'provider: cli, command_template: "echo hello; : {{PROMPT}}"{of_target}'
    checks = (f"{{type: http, url: '{url}'{of_check}}}" for url in urls)
    targets = "".join(f"  - {{name: t{at}, {command}, healthcheck: {check}}}\n" for at, check in enumerate(checks))
    cases = "".join(f"  - {{id: t{at}, target: t{at}, input: q, assert: [equals: hello]}}\n" for at in range(len(urls)))
    project.write("targets.yaml", f"targets:\n{targets}")
    project.write("a.eval.yaml", f"cases:\n{cases}")
    return project.run(mode=())


def test_a_login_and_a_proxy_are_used_and_a_login_is_not_shown(project, place, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://{place}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    run = probed(project, f"http://ada:pw%2312345678@{place}/login", "http://service.test/200")
    assert run.outcomes == {"passed": 2}, run.text
    run = probed(project, f"http://ada:pw%2312345678@{place}/nothing?key=abc")
    assert f"CLI healthcheck failed for 't0': GET http://{place}/nothing answered 404, expected 2xx" in run.text
    assert "12345678" not in run.text
    assert run.by_id["t0"]["error_detail"]["kind"] == "network"
    monkeypatch.setenv("NO_PROXY", "service.test")
    assert "CLI healthcheck failed for 't0'" in probed(project, "http://service.test/200").text


@pytest.mark.parametrize("place", ["of_check", "of_target"])
def test_a_server_that_does_not_answer_in_time_is_not_healthy(project, place):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        run = probed(project, url, **{place: ", timeout_seconds: 0.2"})
    assert f"CLI healthcheck failed for 't0': GET {url} did not answer within 0.2s" in run.text
    assert run.by_id["t0"]["error_detail"]["kind"] == "timeout"


def test_a_server_that_talks_nonsense_is_not_healthy(project):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"nonsense\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        run = probed(project, url)
        thread.join()
    assert f"CLI healthcheck failed for 't0': GET {url} replied with what is no HTTP: " in run.text
    assert run.by_id["t0"]["error_detail"]["kind"] == "network"
