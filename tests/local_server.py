"""A server in a thread of this process, and a handler that keeps quiet: what test servers share."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LocalServer(ThreadingHTTPServer):
    """Serves as long as its `with` block lasts; `stop` is set at its end."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.requests, self.stop = [], threading.Event()

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


class QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        """Keep the tests' output clean."""
