"""Which environments a service makes, and which of their keywords a client may set.

    server: ids, keywords of its own (a folder, a fitted user, …)
    client: one of those ids, and keywords that touch no file and load nothing

What the server set stays; a client may not take it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

import convgym.envs.registration as registration
from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.language.models import ChatModel
from convgym.service.problems import Problem
from convgym.service.settings import ServiceSettings
from convgym.spaces import UtteranceSpace

CLIENT_KEYWORDS = (
    "observation", "action", "split", "task_id", "topic", "difficulty", "persona", "style",
    "response_diversity", "reward", "discount", "max_turns", "messages", "privileged",
)  # fmt: skip
"""None of them names a file, a model or a class."""


class Environments:
    """Makes environments of the service's ids."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Raises InvalidConfiguration where one of them cannot be made."""
        self.ids = tuple(dict.fromkeys(settings.environments))
        self._keywords, self._privileged = dict(settings.keywords), settings.privileged
        registration.register_envs()
        for env_id in self.ids:
            if env_id not in gym.registry:
                known = ", ".join(registration.ENVIRONMENTS)
                raise InvalidConfiguration(
                    f"no environment is called {env_id!r}; there are {known}"
                )
            self._try(env_id)

    def _try(self, env_id: str) -> None:
        """One step, so that what is made at its first use is made before anybody waits for it."""
        env = self._make(env_id, {})
        env.reset(seed=0)
        if isinstance(env.action_space, UtteranceSpace):
            env.step("Hello.")
        env.close()

    def make(
        self, env_id: str | None = None, keywords: Mapping[str, Any] | None = None
    ) -> gym.Env[Any, Any]:
        """An environment as a client wants it.

        Raises Problem 403 for hidden state that is not to be shown, 404 for another id, 422 for
        a keyword that no client sets; and InvalidConfiguration for a value that is not allowed.
        """
        given = dict(keywords or {})
        for name in given:
            if name not in CLIENT_KEYWORDS:
                raise Problem(
                    422, "not_allowed",
                    f"no keyword is called {name[:40]!r}; there are {', '.join(CLIENT_KEYWORDS)}",
                )  # fmt: skip
            if name in self._keywords:
                raise Problem(422, "not_allowed", f"{name} is set by the service")
        if given.get("privileged") and not self._privileged:
            raise Problem(403, "hidden", "this service shows nobody what is hidden")
        return self._make(self.checked(env_id), given)

    def in_words(
        self, env_id: str | None = None, user: ChatModel | None = None
    ) -> gym.Env[Any, Any]:
        """For policies that speak: `dict` observations and texts; `user` plays the customer."""
        given: dict[str, Any] = {"observation": "dict", "action": "text"}
        return self._make(self.checked(env_id), given | ({"user": user} if user else {}))

    def checked(self, env_id: str | None) -> str:
        """The id, or the default; raises Problem 404 for one that this service has not."""
        if env_id is None:
            return self.ids[0]
        if env_id not in self.ids:
            raise Problem(
                404, "no_environment",
                f"there is no environment {env_id[:60]!r} here; there are {', '.join(self.ids)}",
            )  # fmt: skip
        return env_id

    def _make(self, env_id: str, given: Mapping[str, Any]) -> gym.Env[Any, Any]:
        try:
            return gym.make(env_id, disable_env_checker=True, **{**self._keywords, **given})
        except ConvGymError:
            raise
        except (gym.error.Error, TypeError) as error:
            what = str(error).partition(" was raised from")[0].rstrip(".")
            raise InvalidConfiguration(f"{env_id} cannot be made so: {what}") from None
