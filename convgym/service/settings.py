"""What a service is started with: whom it lets in, what it shows, how much it takes.

Every limit stands here with its unit, and a value that is not allowed fails here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convgym.errors import InvalidConfiguration

DEFAULT_ENVIRONMENT = "ConvGym/CustomerService-v0"
_POSITIVE = (
    "max_body_bytes", "body_timeout_s", "header_timeout_s", "work_timeout_s", "requests_per_s",
    "burst", "max_sessions", "max_sessions_per_key", "session_idle_s", "max_session_characters",
    "max_messages", "max_message_characters", "threads", "max_waiting", "max_connections",
    "max_logged_conversations", "max_log_file_bytes",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Of one service. Bad values raise InvalidConfiguration."""

    environments: tuple[str, ...] = (DEFAULT_ENVIRONMENT,)
    """Ids that sessions may play; the first is the default, and whose world a policy acts in."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    """What every environment is made with, as `folder` of a domain of one's own."""
    host: str = "127.0.0.1"
    port: int = 8000
    privileged: bool = False
    """Whether a session may be shown its own hidden state. Nobody is shown another's."""
    browse: bool | None = None
    """Whether local Minari datasets are shown; None: only to this machine."""
    reports: Path | None = None
    """Folder of HTML reports that are shown."""
    conversation_log: Path | None = None
    """JSONL file that conversations are appended to, or folder of such files."""
    also: tuple[tuple[str, float], ...] = ()
    """Policies that answer beside the first, each with its share of the conversations."""
    split_key: str = ""
    """Decides with a conversation's name which policy answers; a secret where clients name them."""
    seed: int = 0
    """Of the world that a policy acts in, where a request names none."""
    openenv: bool = False
    """Whether environments are served as OpenEnv's clients expect them, beside the rest."""

    max_body_bytes: int = 256 * 1024
    """Of one request."""
    header_timeout_s: float = 10.0
    """From the first byte of a request, or from the connection, to the end of its headers."""
    body_timeout_s: float = 10.0
    """From there to its last byte."""
    work_timeout_s: float = 30.0
    """A reply, or a step; whoever waits longer is told so."""
    requests_per_s: float = 50.0
    """Of one key, on average."""
    burst: int = 100
    """Of one key, at once."""
    max_sessions: int = 1000
    max_sessions_per_key: int = 500
    session_idle_s: float = 900.0
    """A session that nobody used for so long is closed."""
    max_session_characters: int = 1_000_000
    """Sent to one session, from its reset on."""
    max_messages: int = 200
    """In a history."""
    max_message_characters: int = 16_384
    threads: int = 8
    """Steps at once, and replies at once, of all keys; one key has half of them."""
    max_waiting: int = 512
    """Steps and replies that wait for a thread."""
    max_connections: int = 2048
    max_logged_conversations: int = 2048
    """Chats under way that are known again; the one that has been idle longest makes room."""
    max_log_file_bytes: int = 64_000_000
    """Of a file in a folder of logged conversations; then another is begun."""

    def __post_init__(self) -> None:
        if not self.environments:
            raise InvalidConfiguration("no environment was named; name one at least, with --env")
        if not 0 <= self.port <= 65535:
            raise InvalidConfiguration(f"port={self.port}; it must lie from 0 to 65535")
        if not self.host:
            raise InvalidConfiguration("host is empty; take 127.0.0.1, or an address to bind")
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise InvalidConfiguration(f"{name}={getattr(self, name)}; it must be above 0")
        if self.reports is not None and not self.reports.is_dir():
            raise InvalidConfiguration(f"reports={self.reports} is no folder; name one of reports")
        if "privileged" in self.keywords:
            raise InvalidConfiguration(
                "privileged is no keyword of the service's environments; start it with --privileged"
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def browsable(self) -> bool:
        """Whether local datasets are shown."""
        return self.local if self.browse is None else self.browse


def is_loopback(host: str) -> bool:
    """Whether an address, or `localhost`, is this machine alone; other names count as open."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
