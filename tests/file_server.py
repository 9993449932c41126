"""A web server for one folder, over http or https, that may cut its answers short."""

import functools
import http.server
import ssl
import threading
from contextlib import contextmanager
from pathlib import Path

CERTIFICATE = Path(__file__).parent / "data/localhost.pem"


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments, cut=None, asked=None, **keywords):
        self._cut, self._asked = cut, asked
        super().__init__(*arguments, **keywords)

    def copyfile(self, source, outputfile):
        """Of a file whose path ends with `cut` only the first half, whatever was announced."""
        content = source.read()
        if self._cut and self.path.endswith(self._cut):
            content = content[: len(content) // 2]
            self.close_connection = True
        outputfile.write(content)

    def log_message(self, *_):
        self._asked.append(self.path)


@contextmanager
def serving(folder, scheme="http", cut=None):
    """(address, paths that were asked for) of a server that is closed at the end."""
    asked = []
    handler = functools.partial(_Handler, directory=str(folder), cut=cut, asked=asked)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
