"""Connections to a web server, kept alive, whose every step keeps to one deadline.

What a newcomer would get wrong: a socket's timeout is for one `recv`, so a server that drips a
byte now and then holds a reader for ever. Here each operation is given only what is left:

    deadline ─► look-up ─► connect ─► TLS ─► send ─► head ─► body

Knows nothing of what is sent or read.
"""

from __future__ import annotations

import http.client
import queue
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult


class Connections:
    """Connections to one place, kept between calls; any number may be taken at a time."""

    def __init__(self, url: SplitResult, path: str) -> None:
        self._idle: deque[Connection] = deque()
        self._open = True
        self._host, self._path = url.hostname or "", path
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self._port = url.port or (443 if self._tls else 80)
        if self._tls:
            self._tls.sslsocket_class = TimedTls

    def take(self) -> Connection:
        """The one used last that is still good, or a new one."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self.new()
            if connection.quiet():
                return connection
            connection.close()

    def new(self) -> Connection:
        """One that opens when it is used."""
        return Connection(self._host, self._port, self._path, self._tls)

    def keep(self, connection: Connection) -> None:
        """Take a connection back, for the next call."""
        if self._open:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """End those that nobody holds; the others end when they come back."""
        self._open = False
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread took it
                return

    __del__ = close


class Connection(http.client.HTTPConnection):
    """One connection; `sock` is None while it is not open."""

    def __init__(self, host: str, port: int, path: str, context: ssl.SSLContext | None) -> None:
        super().__init__(host, port)
        self.default_port = 443 if context else 80
        self._path, self._tls = path, context
        self._deadline = 0.0

    def post(
        self, body: bytes, headers: Mapping[str, str], deadline: float
    ) -> http.client.HTTPResponse:
        """Send a body; the head of the answer, whose body keeps to the same deadline."""
        self._deadline = deadline
        if isinstance(self.sock, Timed):
            self.sock.deadline = deadline
        self.request("POST", self._path, body, dict(headers))
        return self.getresponse()

    def quiet(self) -> bool:
        """Whether it is open and nothing came unasked: neither an end nor a second answer."""
        if self.sock is None:
            return False
        try:
            self.sock.settimeout(0.0)
            socket.socket.recv(self.sock, 1, socket.MSG_PEEK)  # below TLS, which cannot peek
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def connect(self) -> None:
        """Open the connection; called by `request` where it is not."""
        self.sock = _connected(self.host, self.port, self._deadline)
        if self._tls is not None:
            self.sock.settimeout(_left(self._deadline))
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)
        assert isinstance(self.sock, Timed)
        self.sock.deadline = self._deadline


class Timed(socket.socket):
    """A socket that gives each operation what is left until `deadline`."""

    deadline: float

    def recv_into(self, *arguments: Any) -> int:
        """As a socket's own; raises TimeoutError at the deadline."""
        self.settimeout(_left(self.deadline))
        return super().recv_into(*arguments)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """As a socket's own; raises TimeoutError at the deadline."""
        view = memoryview(data)
        while view:
            self.settimeout(_left(self.deadline))
            view = view[self.send(view, flags) :]


class TimedTls(Timed, ssl.SSLSocket):
    """The same over TLS."""


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _connected(host: str, port: int, deadline: float) -> Timed:
    """A socket to the first address that answers; each is given its share of the time left."""
    addresses = _addresses(host, port, deadline)
    failure: OSError = OSError("no address")
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        connection = Timed(family, kind, protocol)
        try:
            connection.settimeout(_left(deadline) / (len(addresses) - index))
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except OSError as error:
            connection.close()
            failure = error
    raise failure


def _addresses(host: str, port: int, deadline: float) -> list[Any]:
    """Addresses of a name. The system's look-up knows no timeout, so it has a thread of its own."""
    found: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.put(error)

    threading.Thread(target=look_up, daemon=True, name="convgym-look-up").start()
    try:
        result = found.get(timeout=_left(deadline))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(result, Exception):
        raise result
    return result
