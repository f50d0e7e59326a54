"""The connections to models: proxies, certificates, sizes, faulty replies, packages that cannot be imported."""

import gzip
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from busy import slowness
from fake_llm import FakeLlm, Reply

KEY = "sk-0123456789abcdef"
ANSWER = json.dumps({
    "choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}).encode()  # fmt: skip
BODIES = {
    "fine": (ANSWER, {}),
    "huge": (b"", {"content-encoding": "gzip"}),
    "html": (b"<html>", {}),
    "list": (b"[1]", {}),
    "deep": (b"[" * 150_000, {}),
    "long-header": (ANSWER, {"x-policy": "x" * 70_000}),
    "two-lengths": (ANSWER, {"Content-Length": "5"}),
}
ERRORS = {
    "huge": ("crash", "the reply of model 'm' (openai) is too large: it has more than 10 MiB"),
    "html": ("crash", "model 'm' (openai) replied with what is no JSON: Expecting value (character 1)"),
    "list": ("crash", "model 'm' (openai) replied with JSON that is no object, but a list"),
    "deep": ("crash", "model 'm' (openai) replied with what is no JSON: nested too deeply"),
    "long-header": ("crash", "model 'm' (openai) replied with what is no HTTP: "),
    "two-lengths": ("crash", "model 'm' (openai) replied with what is no HTTP: "),
    "needs-a-user": ("config", "the proxy before model 'm' (openai) replied HTTP 407: "),
    "forbids": ("auth", "the proxy before model 'm' (openai) replied HTTP 403: "),
    "untrusted": ("config", "no secure connection to model 'm' (openai): "),
}


@cache
def huge():
    return gzip.compress(b'{"a": "' + b"x" * 50_000_000 + b'"}')


class Server:
    """Answers by the first part of the path, and plays a proxy; `asked` has the paths, `ports` those of callers."""

    def __init__(self, context=None):
        self.asked, self.ports = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                outer.asked.append(self.path)
                outer.ports.append(self.client_address[1])
                name = self.path.split("/")[1]
                body, headers = BODIES.get(name, BODIES["fine"])
                self.answer(200, huge() if name == "huge" else body, headers)

            def do_CONNECT(self):
                outer.asked.append(self.path)
                self.answer(403 if self.path.startswith("forbids") else 407, b"", {})

            def answer(self, status, body, headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Keep standard error clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.place = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def certificate(tmp_path):
    """A key and a certificate for 127.0.0.1, signed by itself, in one file, and the certificate alone."""
    file, alone = tmp_path / "server.pem", tmp_path / "server.crt"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", file, "-out", alone),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl is missing")
    file.write_bytes(file.read_bytes() + alone.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, alone


def write(project, urls, *names, **keys):
    """Write a target for each URL, and a case for each name, which is that of a target."""
    fixed = {"provider": "openai", "model": "m", "api_key": KEY, "retry_initial_delay_ms": 1, **keys}
    targets = [{"name": name, "base_url": url, **fixed} for name, url in urls.items()]
    project.write("targets.yaml", json.dumps({"targets": targets}))
    cases = [
        {"id": f"{name}-{at}", "target": name, "input": "q", "assert": [{"equals": "hello"}]}
        for at, name in enumerate(names or urls)
    ]
    project.write("a.eval.yaml", json.dumps({"cases": cases}))


def test_what_is_wrong_with_a_connection_is_told_once_and_without_secrets(project, monkeypatch, certificate):
    with Server() as server, Server(certificate[0]) as safe:
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.delenv(name.upper(), raising=False)
            monkeypatch.setenv(name, f"http://me:pw12345678@{server.place}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        urls = {name: f"http://{server.place}/{name}" for name in BODIES}
        urls |= {name: f"https://{name}.test/v1" for name in ("needs-a-user", "forbids")}
        urls |= {"untrusted": f"https://{safe.place}/v1", "through-the-proxy": "http://api.test/v1"}
        write(project, urls)
        run = project.run("--agentv-workers=1", mode=())
    results = {result["eval_id"].rpartition("-")[0]: result for result in run.results}
    for name, (kind, start) in ERRORS.items():
        error = results[name]["error"]
        assert (error[: len(start)], results[name]["error_detail"]["kind"]) == (start, kind)
        assert "2 requests" not in error, "it was paid for again"
    assert [name for name, result in results.items() if result["status"] == "pass"] == ["fine", "through-the-proxy"]
    assert "Got more than 65536 bytes" in results["long-header"]["error"]
    assert "Duplicate Content-Length" in results["two-lengths"]["error"]
    assert results["untrusted"]["error"].endswith("(SSL_CERT_FILE names the certificates to trust)")
    assert "http://api.test/v1/chat/completions" in server.asked
    assert {server.asked.count(place) for place in ("needs-a-user.test:443", "forbids.test:443")} == {1}
    assert "pw1234" not in json.dumps(run.results) + run.text


def run_anew(project, *flags, **variables):
    """Run pytest in a new process, with further variables; return the results in the order of their ids."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LITELLM", "OPENAI"))}
    out = project.path / "anew.jsonl"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--agentv-out={out}", *flags]
    subprocess.run(command, cwd=project.path, env={**kept, **variables}, capture_output=True, check=False)
    return sorted(map(json.loads, out.read_text().splitlines()), key=lambda result: result["eval_id"])


@pytest.mark.slow
def test_connections_are_reused_and_a_company_certificate_is_trusted_when_a_variable_names_it(project, certificate):
    """In a process of its own: OpenSSL reads the variable once."""
    context, alone = certificate
    with Server(context) as server:
        write(project, {"safe": f"https://{server.place}/v1"}, *["safe"] * 5)
        results = run_anew(project, "--agentv-workers=1", SSL_CERT_FILE=str(alone))
    assert [result["status"] for result in results] == ["pass"] * 5, results
    assert (len(server.asked), len(set(server.ports))) == (5, 1)


@pytest.mark.slow
def test_the_limit_holds_for_all_requests_and_waits_of_a_call_and_waiting_is_no_part_of_the_duration(project):
    busy = {"status": 503, "message": "busy"}
    scripts = {
        "no-time-left": [Reply(**busy, headers={"retry-after": "55"})],
        "hangs": [Reply(**busy), Reply(delay_seconds=30)],
        "waits": [Reply(status=429, headers={"retry-after": "60"}), Reply()],
    }
    with FakeLlm() as llm:
        write(
            project,
            {name: llm.script(name, *replies) + "/v1" for name, replies in scripts.items()},
            retry_max_delay_ms=400,
        )
        targets = json.loads((project.path / "targets.yaml").read_text())
        targets["targets"][0].update(retry_initial_delay_ms=1000, retry_max_delay_ms=60_000)
        project.write("targets.yaml", json.dumps(targets))
        started = time.perf_counter()
        run = project.run("--agentv-workers=3", "--agentv-timeout=2", "--agentv-max-retries=0", mode=())
        elapsed_ms = (time.perf_counter() - started) * 1000
    left, hangs, waits = (run.by_id[f"{name}-{at}"] for at, name in enumerate(scripts))
    told = "model 'm' (openai) replied HTTP 503: busy to the key Bearer ***"
    assert left["error"] == f"{told}; no time is left for another request (1 request, 0.0 s of waiting)"
    assert hangs["error"].startswith("no answer from model 'm' (openai) within 2 s (2 requests, 0.0 s of waiting; ")
    assert told in hangs["error"]
    assert [result["error_detail"]["kind"] for result in (left, hangs)] == ["network", "timeout"]
    assert waits["status"] == "pass"
    assert waits["execution_metrics"]["duration_ms"] + 399 <= elapsed_ms
    assert waits["execution_metrics"]["duration_ms"] < 400 * slowness()


@pytest.mark.parametrize("is_usual", [True, False])
def test_the_key_of_openai_goes_only_to_the_server_that_the_environment_names(project, monkeypatch, is_usual):
    with FakeLlm() as llm:
        url = f"{llm.script('keyless')}/v1"
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", url if is_usual else "http://elsewhere.test/v1")
        write(project, {"keyless": url}, api_key="")
        targets = json.loads((project.path / "targets.yaml").read_text())
        del targets["targets"][0]["api_key"]
        project.write("targets.yaml", json.dumps(targets))
        assert project.run(mode=()).outcomes == {"passed": 1}
        assert llm.asked("keyless")[0].headers.get("authorization") == (f"Bearer {KEY}" if is_usual else None)


@pytest.mark.slow
def test_packages_that_cannot_be_imported_are_said_cost_no_answer_and_do_not_hang(project):
    """In a process of its own, where nothing has imported them yet; the price does not count as time of the answer."""
    limit = 0.5 * slowness()
    broken = "raise ImportError('broken installation')\n"
    project.write("genai_prices.py", f"import time\ntime.sleep({2 * limit})\n{broken}")
    project.write("litellm.py", broken)
    with FakeLlm() as llm:
        write(project, {"direct": llm.script("direct") + "/v1", "litellm": llm.script("litellm")})
        targets = json.loads((project.path / "targets.yaml").read_text())
        targets["targets"][1]["provider"] = "litellm"
        project.write("targets.yaml", json.dumps(targets))
        direct, litellm = run_anew(project, f"--agentv-timeout={limit}", PYTHONPATH=str(project.path))
        assert (direct["status"], direct["execution_metrics"].get("cost_usd")) == ("pass", None)
        assert litellm["error"] == "litellm cannot be imported: broken installation"
        assert litellm["error_detail"]["kind"] == "config"
        assert (len(llm.asked("direct")), llm.asked("litellm")) == (1, [])
