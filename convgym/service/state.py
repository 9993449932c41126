"""What the routes of one service share: environments, sessions, threads, counts, logs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from convgym.conversation import Conversation
from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.service.chats import Chat, Chats
from convgym.service.conversation_log import ConversationLog
from convgym.service.environments import Environments
from convgym.service.json_log import JsonLog, where_raised
from convgym.service.keys import KeyRing
from convgym.service.memory_use import resident_bytes
from convgym.service.metrics import Metrics
from convgym.service.problems import Problem
from convgym.service.responders import Responder
from convgym.service.sessions import Session, Sessions
from convgym.service.settings import ServiceSettings
from convgym.service.variants import Split
from convgym.service.work import Work


class State:
    """Of one service; made before it runs, begun and ended with it."""

    known_errors: tuple[type[Exception], ...] = (Problem, ConvGymError, gym.error.ResetNeeded)
    """What a client is told in words; everything else is a 500."""

    def __init__(
        self,
        settings: ServiceSettings,
        keys: KeyRing,
        responder: Responder | None,
        log: JsonLog,
        others: Sequence[tuple[Responder, float]] = (),
    ) -> None:
        """`others`: what replies beside `responder`, each with its share of the conversations.

        Raises InvalidConfiguration where the service would be open to everybody, and for shares
        that leave `responder` nothing.
        """
        if not settings.local and not len(keys):
            raise InvalidConfiguration(
                f"host={settings.host!r} can be reached from other machines, and no API key was "
                "given; start the service with --api-key-file, or on 127.0.0.1"
            )
        self.settings, self.log = settings, log
        self.split = None if responder is None else Split(responder, others, settings.split_key)
        self.environments = Environments(settings)
        self.sessions = Sessions(
            settings.max_sessions,
            settings.max_sessions_per_key,
            settings.session_idle_s,
            settings.max_session_characters,
            self._closed,
        )
        self.conversations = ConversationLog(
            settings.conversation_log, log, keys, settings.max_log_file_bytes
        )
        self.chats = Chats(
            settings.max_logged_conversations, settings.session_idle_s, self._chat_closed
        )
        self.work: Work
        """Where steps and datasets are worked at."""
        self.replying: Work
        """Where replies are: a language model that takes its time holds no step up."""
        self.metrics = self._metrics()

    def begin(self) -> None:
        """In the event loop that serves."""
        limits = self.settings.threads, self.settings.max_waiting, self.settings.work_timeout_s
        self.work, self.replying = Work(*limits), Work(*limits)
        shares = {one.name: one.share for one in self.split.variants} if self.split else {}
        self.log("started", environments=self.environments.ids, policies=shares)

    def end(self) -> None:
        """Close all sessions, and write what is to be logged of them."""
        self.work.close()
        self.replying.close()
        self.sessions.close_all()
        self.chats.close_all()
        self.conversations.close()
        self.log("stopped")

    @property
    def policy(self) -> str:
        """Name of what replies, of several the first; "" where nothing does."""
        return "" if self.split is None else self.split.first.name

    def responding(self) -> Split:
        """What replies; raises Problem 404 where nothing does."""
        if self.split is None:
            raise Problem(404, "no_policy", "this service has no policy; start it with --policy")
        return self.split

    @property
    def remembers(self) -> bool:
        """Whether chats are known again: to be logged, or to be answered by the same policy."""
        return self.conversations.on or (self.split is not None and len(self.split.variants) > 1)

    def told(self) -> dict[str, Any]:
        """What a client may know of it."""
        return {
            "environments": list(self.environments.ids),
            "policy": self.policy or None,
            "as_user": self.split is not None and hasattr(self.split.first.responder, "dialogue"),
            "hidden_state": self.settings.privileged,
            "browse": self.settings.browsable,
            "reports": self.settings.reports is not None,
            "conversations_logged": self.conversations.on,
            "limits": {
                "session_idle_s": self.settings.session_idle_s,
                "max_message_characters": self.settings.max_message_characters,
                "max_messages": self.settings.max_messages,
            },
        }

    def raised(self, error: BaseException) -> None:
        """Note what no client has to hear of."""
        self.metrics.count("convgym_errors_total", kind=type(error).__name__)
        self.log("raised", **where_raised(error))

    @staticmethod
    def drawn_seed() -> int:
        """A seed that nobody can guess."""
        return secrets.randbits(62)

    def keep(self, owner: str, said: Conversation | None) -> None:
        """Log what was said, where conversations are logged."""
        if self.conversations.on:
            self.conversations.write(owner, said)

    def retire(self, owner: str, play: Any) -> None:
        """Log what a session has played, and close it."""
        try:
            self.keep(owner, play.conversation())
        finally:
            play.close()

    def _closed(self, session: Session) -> None:
        self.retire(session.owner, session.play)

    def _chat_closed(self, chat: Chat) -> None:
        if self.conversations.on:
            self.conversations.write_chat(chat)

    def _metrics(self) -> Metrics:
        metrics = Metrics()
        metrics.counter("convgym_requests_total", "Requests by route, method and status.")
        metrics.histogram("convgym_request_seconds", "Time of requests that were let in.")
        metrics.counter("convgym_errors_total", "Exceptions nobody had foreseen, by kind.")
        metrics.counter("convgym_steps_total", "Steps of environment sessions, by side.")
        metrics.counter("convgym_replies_total", "Replies, by policy.")
        metrics.gauge("convgym_sessions", "Open sessions.", lambda: len(self.sessions))
        metrics.gauge("convgym_work_running", "Steps and replies under way.",
                      lambda: self.work.running + self.replying.running)  # fmt: skip
        metrics.gauge("convgym_work_waiting", "Steps and replies that wait for a thread.",
                      lambda: self.work.waiting + self.replying.waiting)  # fmt: skip
        metrics.gauge("convgym_resident_bytes", "Memory of this process.", resident_bytes)
        return metrics
