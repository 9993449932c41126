"""Serving the application with uvicorn, until somebody asks to stop.

    SIGINT, SIGTERM ─► no new connections ─► requests under way are answered ─► sessions closed,
                                                                                 log written

A second signal ends it at once.
"""

from __future__ import annotations

import importlib.util
import logging
import signal
import socket
from typing import Any

from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.service.json_log import JsonLog, ServerLog
from convgym.service.settings import ServiceSettings

_BACKLOG = 512
_GRACE_S = 20
_OTHER_FILES = 256
_KEEP_ALIVE_S = 30


def serve(app: Any, settings: ServiceSettings, log: JsonLog) -> None:
    """Serve until a signal comes; port 0 takes a free one, which the log names.

    Raises InvalidConfiguration where the address cannot be bound, MissingExtra where a package is
    missing.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("uvicorn", "serve") from error
    from convgym.service.connections import timed_protocol

    if settings.openenv and importlib.util.find_spec("websockets") is None:
        raise MissingExtra("websockets", "openenv")
    listening = bound(settings.host, settings.port)
    config = uvicorn.Config(
        app,
        http=timed_protocol(settings.header_timeout_s),
        ws="websockets-sansio" if settings.openenv else "none",
        ws_max_size=settings.max_body_bytes,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        limit_concurrency=settings.max_connections,
        backlog=_BACKLOG,
    )
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [ServerLog(log)], False
        logger.setLevel(logging.WARNING)
    _allow_files(settings.max_connections + _OTHER_FILES)
    # uvicorn raises the signal again once it has stopped, which then is no failure.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with listening:
        address, port = listening.getsockname()[:2]
        log("listening", host=address, port=port)
        uvicorn.Server(config).run(sockets=[listening])


def _allow_files(wanted: int) -> None:
    """As many open files as connections need, where the system lets us."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens here; raises InvalidConfiguration where there can be none."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind)
    except OSError as error:
        raise InvalidConfiguration(f"{host}:{port} is no address: {error.strerror}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise InvalidConfiguration(
            f"{host}:{port} cannot be bound: {error.strerror}; name another --port"
        ) from None
    listening.set_inheritable(True)
    return listening
