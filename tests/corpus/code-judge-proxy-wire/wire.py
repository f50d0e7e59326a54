"""Speak HTTP with the target proxy, byte by byte."""

import json
import os
import socket
import sys
import threading

TOKEN = os.environ["AGENTV_TARGET_PROXY_TOKEN"]
PORT = int(os.environ["AGENTV_TARGET_PROXY_URL"].rpartition(":")[2])
told = []


def exchange(*parts):
    """Send parts of a request, each after a reply to the one before, and return the status and the reply."""
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        connection.settimeout(20)
        for part in parts[:-1]:
            connection.sendall(part)
            told.append(["", connection.recv(1000).decode().strip(), None])
        connection.sendall(parts[-1])
        data = b""
        while piece := connection.recv(100_000):
            data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    try:
        reply = json.loads(body)
        if reply.get("error", "").startswith("Invalid JSON: "):
            reply["error"] = "Invalid JSON: …"  # in words of Python's version
        return int(head.split()[1]), reply
    except ValueError:
        return int(head.split()[1]), None  # whatever the library says of what is no HTTP


def ask(line, body=None, shown=None):
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
    status, reply = exchange(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    told.append([f"{line} {shown or (body if isinstance(body, bytes) else json.dumps(body))}", status, reply])


def strangers():
    for path in ("/info", "/invoke", "/nowhere"):
        for words in ("", "Bearer ", "Bearer " + "0" * 64, f"Basic {TOKEN}", TOKEN, "Bearer é"):
            line = f"Authorization: {words}\r\n" if words else ""
            status, reply = exchange(f"GET {path} HTTP/1.1\r\nHost: x\r\n{line}\r\n".encode("latin-1"))
            told.append([f"{path} {words.replace(TOKEN, 'TOKEN')}", status, reply])


def requests():
    for line in ("GET /", "GET /info?x", "POST /info", "GET /invoke", "PUT /invoke"):
        ask(line)
    for named in ({}, {"target": None}, {"target": ""}, {"target": "x"}, {"target": 5}, {"target": ["main"]}):
        ask("POST /invoke", {"question": "q", **named})
    for body in ({}, {"question": ""}, {"question": 5}, [], "x", 5):
        ask("POST /invoke", body)
    for body in ({}, {"requests": None}, {"requests": {}}, [], {"requests": []}):
        ask("POST /invokeBatch", body)
    for path in ("invoke", "invokeBatch"):
        for body in (b"", b"{", b"\xff"):
            ask(f"POST /{path}", body, shown=repr(body))
    ask("POST /invoke", b"[" * 100_000, shown="many brackets")
    ask("POST /invoke", {"question": "ü" * 2_000_000}, shown="a long question")
    ask("POST /invoke", {"question": "q", "target": "main"})


def counted():
    asked = {"question": "q", "systemPrompt": "s", "evalCaseId": "case", "attempt": 0, "target": "main", "more": 1}
    for body in ({"question": "q", "target": "x"}, {}, {"question": "q", "target": "unset"}, asked):
        ask("POST /invoke", body)
    ask("POST /invoke", {"question": "q", "target": "broken"})
    ask("POST /invoke", b"{", shown="over the limit")
    ask("GET /info")


def batches():
    named = [{"question": "a"}, {"question": "c", "target": "x"}, {"target": "main"}, "no object"]
    ask("POST /invokeBatch", {"requests": [*named, {"question": "d", "target": "broken"}]})
    ask("GET /info")
    ask("POST /invokeBatch", {"requests": [{"question": "q"}, {}, *[{"question": "q"}] * 4]})
    ask("GET /info")


def at_once():
    threads = [threading.Thread(target=ask, args=("POST /invoke", {"question": "q"})) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.sort(key=lambda row: row[1])
    told[3:] = [[f"{len(told) - 3} more", *row] for row in {json.dumps(row[1:]): row[1:] for row in told[3:]}.values()]


def odd_bytes():
    allowed = f"authorization: Bearer {TOKEN}\r\n"
    head = f"POST /invoke HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{allowed}".encode()
    chunks = b'd;x=y\r\n{"question": \r\n4\r\n"q"}\r\n0\r\nTrailer: t\r\n\r\n'
    told.append(["chunks", *exchange(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)])
    body = b'{"question": "q"}'
    told.append(["body later", *exchange(head + b"Content-Length: 17\r\nExpect: 100-continue\r\n\r\n", body)])
    for request in (
        b"nonsense\r\n\r\n",
        b"POST /invoke HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /invoke HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /invoke HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /info HTTP/1.1\r\nX: " + b"x" * 10_000 + b"\r\n\r\n",
    ):
        told.append([repr(request[:60]), exchange(request)[0], None])
    ask("GET /info")


globals()[sys.argv[1]]()
print(json.dumps({"score": 1, "details": {"told": told}}))
