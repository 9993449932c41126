"""A service from its settings and the name of a policy: what `convgym serve` does."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convgym.errors import InvalidConfiguration
from convgym.service.dialogue import Dialogue
from convgym.service.environments import Environments
from convgym.service.json_log import JsonLog
from convgym.service.keys import KeyRing
from convgym.service.policies import Saved, check_speaks, maker_of, speaking
from convgym.service.responders import ModelResponder, PolicyResponder, Responder, Said
from convgym.service.settings import ServiceSettings

_FIRST_WORDS = ("Hello.", "Nothing of that sort happened, sorry.")
"""Of the second no phrase is known, so that a model has to read it."""


def start(
    settings: ServiceSettings,
    keys: KeyRing,
    policy: str | None,
    log: JsonLog,
    saved: Saved | None = None,
) -> None:
    """Serve until a signal comes; raises what `create_app`, `serve` and `responder_of` raise."""
    from convgym.service.application import create_app
    from convgym.service.server import serve

    if policy is None and settings.also:
        raise InvalidConfiguration("--also came without --policy; name what the others leave to")
    responder = None if policy is None else responder_of(policy, settings, saved)
    others = [(responder_of(named, settings, saved), share) for named, share in settings.also]
    _tell_apart([responder, *(one for one, _ in others)], [policy, *(p for p, _ in settings.also)])
    for one in (responder, *(one for one, _ in others)):
        if isinstance(one, PolicyResponder):
            # What reads a person's words is made at its first use, which takes seconds, and in
            # each of the threads that come to it at once.
            for words in _FIRST_WORDS:
                one.reply([Said("user", words)], None, {})
    serve(create_app(settings, keys, responder, log, others), settings, log)


def _tell_apart(responders: Sequence[Any], typed: Sequence[str | None]) -> None:
    """Policies of the same file name in different folders are called as they were typed."""
    names = [one.name for one in responders if one is not None]
    if len(set(names)) < len(names):
        for one, name in zip(responders, typed, strict=True):
            one.name = name


def responder_of(policy: str, settings: ServiceSettings, saved: Saved | None = None) -> Responder:
    """What replies by this name; `saved` finds policies that were saved.

    Raises InvalidConfiguration where nothing does.
    """
    environments = Environments(settings)
    env = environments.in_words()
    make = maker_of(policy, env, saved)
    try:
        one = make()
    except TypeError as error:
        raise InvalidConfiguration(f"{policy!r} cannot be called with nothing: {error}") from None
    name = policy if ":" in policy else Path(policy).stem
    if hasattr(one, "complete"):
        return ModelResponder(name, one, settings.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_speaks(make, env)

    def dialogue(seed: int, options: Mapping[str, Any]) -> Dialogue:
        return Dialogue(
            lambda user: environments.in_words(user=user),
            lambda made: speaking(make(), made),
            seed,
            options,
        )

    return PolicyResponder(name, dialogue, settings.seed)
