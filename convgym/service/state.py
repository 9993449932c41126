"""What the routes of one service share: environments, sessions, threads, counts, logs."""

from __future__ import annotations

import secrets
from typing import Any

import gymnasium as gym

from convgym.errors import ConvGymError, InvalidConfiguration
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
from convgym.service.work import Work


class State:
    """Of one service; made before it runs, begun and ended with it."""

    known_errors: tuple[type[Exception], ...] = (Problem, ConvGymError, gym.error.ResetNeeded)
    """What a client is told in words; everything else is a 500."""

    def __init__(
        self, settings: ServiceSettings, keys: KeyRing, responder: Responder | None, log: JsonLog
    ) -> None:
        """Raises InvalidConfiguration where the service would be open to everybody."""
        if not settings.local and not len(keys):
            raise InvalidConfiguration(
                f"host={settings.host!r} can be reached from other machines, and no API key was "
                "given; start the service with --api-key-file, or on 127.0.0.1"
            )
        self.settings, self.responder, self.log = settings, responder, log
        self.environments = Environments(settings)
        self.sessions = Sessions(
            settings.max_sessions,
            settings.max_sessions_per_key,
            settings.session_idle_s,
            settings.max_session_characters,
            self._closed,
        )
        self.conversations = ConversationLog(
            settings.conversation_log, log, settings.max_logged_conversations,
            settings.session_idle_s,
        )  # fmt: skip
        self.work: Work
        """Where steps and datasets are worked at."""
        self.replying: Work
        """Where replies are: a language model that takes its time holds no step up."""
        self.metrics = self._metrics()

    def begin(self) -> None:
        """In the event loop that serves."""
        limits = self.settings.threads, self.settings.max_waiting, self.settings.work_timeout_s
        self.work, self.replying = Work(*limits), Work(*limits)
        self.log("started", environments=self.environments.ids, policy=self.policy)

    def end(self) -> None:
        """Close all sessions, and write what is to be logged of them."""
        self.work.close()
        self.replying.close()
        self.sessions.close_all()
        self.conversations.close()
        self.log("stopped")

    @property
    def policy(self) -> str:
        """Name of what replies; "" where nothing does."""
        return "" if self.responder is None else self.responder.name

    def responding(self) -> Responder:
        """What replies; raises Problem 404 where nothing does."""
        if self.responder is None:
            raise Problem(404, "no_policy", "this service has no policy; start it with --policy")
        return self.responder

    def told(self) -> dict[str, Any]:
        """What a client may know of it."""
        return {
            "environments": list(self.environments.ids),
            "policy": self.policy or None,
            "as_user": hasattr(self.responder, "dialogue"),
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

    def _closed(self, session: Session) -> None:
        try:
            if self.conversations.on:
                self.conversations.write(session.owner, session.play.conversation())
        finally:
            session.play.close()

    def _metrics(self) -> Metrics:
        metrics = Metrics()
        metrics.counter("convgym_requests_total", "Requests by route, method and status.")
        metrics.histogram("convgym_request_seconds", "Time of requests that were let in.")
        metrics.counter("convgym_errors_total", "Exceptions nobody had foreseen, by kind.")
        metrics.counter("convgym_steps_total", "Steps of environment sessions, by side.")
        metrics.counter("convgym_replies_total", "Replies of the policy.")
        metrics.gauge("convgym_sessions", "Open sessions.", lambda: len(self.sessions))
        metrics.gauge("convgym_work_running", "Steps and replies under way.",
                      lambda: self.work.running + self.replying.running)  # fmt: skip
        metrics.gauge("convgym_work_waiting", "Steps and replies that wait for a thread.",
                      lambda: self.work.waiting + self.replying.waiting)  # fmt: skip
        metrics.gauge("convgym_resident_bytes", "Memory of this process.", resident_bytes)
        return metrics
