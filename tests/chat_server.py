"""A chat-completions server in a thread of this process that answers, dawdles or misbehaves."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RUDE = b"<html>Go away.</html>"


class ChatServer(ThreadingHTTPServer):
    """`mood`: `draft` says the prompt's draft again, `slow` does so after a second, `off-topic`
    says something else, `broken` is an error 500, `rude` sends a page."""

    daemon_threads = True

    def __init__(self, mood="draft"):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mood, self.requests, self.stop = mood, [], threading.Event()

    def handle_error(self, request, client_address):
        """Say nothing: a client that hangs up is what some tests are about."""

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.shutdown()
        self.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        """Keep the tests' output clean."""

    def do_POST(self):
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.requests.append(request)
        if server.mood == "slow":
            server.stop.wait(1.0)
        draft = request["messages"][-1]["content"].split("The draft: ")[-1].split("\n\n")[0]
        said = "The stock market fell by two percent." if server.mood == "off-topic" else draft
        body = json.dumps({"choices": [{"message": {"content": f'Customer: "{said}"'}}]}).encode()
        self.send_response(500 if server.mood == "broken" else 200)
        body = RUDE if server.mood == "rude" else body
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
