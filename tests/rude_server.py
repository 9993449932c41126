"""A chat-completions server in a thread of this process: normal, slow, dripping or rude.

    with Server() as server:
        server.mood = "drips its body"

It remembers what it was asked, and how many requests it was answering at the same time.
"""

import json
import threading

from local_server import LocalServer, QuietHandler

KEY = "sk-very-secret-42"
"""A key that nothing may show; rude replies repeat it."""
PATIENCE = 8.0
"""Seconds; far above every deadline in the tests, far below for ever."""


def reply(text):
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


BODIES = {
    "invalid json": b'{"choices": [',
    "no text at all": b"",
    "not utf-8": b"\xff\xfe\xfa",
    "deep": b"[" * 100_000,
    "page": b"<html>Please sign in.</html>",
    "list": b"[1, 2]",
    "string": b'"hello"',
    "no choices": b'{"choices": []}',
    "choices is a number": b'{"choices": 3}',
    "no message": b'{"choices": [{"text": "hello"}]}',
    "content is a number": b'{"choices": [{"message": {"content": 0}}]}',
    "content is a list": b'{"choices": [{"message": {"content": []}}]}',
}  # all of them malformed

RAW = {
    "no http": b"220 mail.example.org ESMTP\r\n",
    "no status": b"HTTP/1.1 what\r\n\r\n",
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 1000,
    "long line": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "nonsense": bytes(range(256)) * 4,
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
    "bad length": b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n{}",
    "early end": b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + reply("hello"),
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello",
    "nothing": b"",
}


class Server(LocalServer):
    def __init__(self):
        super().__init__(Handler)
        self.mood, self.lock = "normal", threading.Lock()
        self.now = self.most = self.connections = 0


class Handler(QuietHandler):
    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_GET(self):
        self.send(200, reply("followed the redirect"))

    def do_POST(self):
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append((self.path, dict(self.headers), request))
            count = len(server.requests)
            server.now += 1
            server.most = max(server.most, server.now)
        try:
            self.answer(server.mood, request, count)
        finally:
            with server.lock:
                server.now -= 1

    def answer(self, mood, request, count):
        said = request["messages"][-1]["content"]
        if mood == "slow":
            self.server.stop.wait(0.2)
        if mood.startswith("status "):
            self.send(int(mood.split()[1]), b"Bearer " + KEY.encode(), **{"Retry-After": "0"})
        elif mood == "once 500" and count == 1:
            self.send(500, b"")
        elif mood == "wait an hour":
            self.send(429, b"", **{"Retry-After": "3600"})
        elif mood == "redirect":
            self.send(302, b"", Location=self.server.url + "/chat/completions")
        elif mood in BODIES:
            self.send(200, BODIES[mood])
        elif mood in RAW:
            self.wfile.write(RAW[mood])
            self.close_connection = True
        elif mood == "null":
            self.send(200, b'{"choices": [{"message": {"content": null}}]}')
        elif mood == "mislabelled":
            self.send(200, reply("hello"), **{"Content-Type": "text/html"})
        elif mood == "surrogate":
            self.send(200, rb'{"choices": [{"message": {"content": "a\ud800b"}}]}')
        elif mood == "huge":
            self.send(200, reply("x" * 2_000_000))
        elif mood == "endless":
            self.endless()
        elif mood == "hangs up later":
            self.send(200, reply(said))
            self.close_connection = True
        elif mood == "answers twice":
            self.send(200, reply(said))
            self.wfile.flush()
            self.server.stop.wait(0.02)  # so that it is not read with the first
            self.send(200, reply("an answer to nothing"))
        elif mood == "chunked":
            body = reply(said)
            chunks = b"".join(b"%x\r\n%b\r\n" % (1, body[i : i + 1]) for i in range(len(body)))
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            self.wfile.write(head + chunks + b"0\r\n\r\n")
        elif mood == "drips its head":
            self.drip(b"HTTP/1.1 200 OK\r\n", b"X-More: yes\r\n")
        elif mood == "drips its body":
            self.drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" ")
        elif mood == "drips chunks":
            self.drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n")
        elif mood == "goes on and on":
            self.drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n")
        elif mood == "silent":
            self.server.stop.wait(PATIENCE)
        else:
            self.send(200, reply("" if mood == "empty" else f"{said}!"))

    def send(self, status, body, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def drip(self, head, drop):
        self.wfile.write(head)
        while not self.server.stop.wait(0.02):
            self.wfile.write(drop)
            self.wfile.flush()

    def endless(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while not self.server.stop.is_set():
            self.wfile.write(b" " * 65_536)
