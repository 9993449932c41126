"""Environment sessions as requests ask for them: begun, begun again, stepped, closed.

    ResetRequest ─► a new session, or the next episode of one's own
    StepRequest  ─► one turn, in a thread, the session held until the thread is done
    CloseRequest ─► forgotten

Raises Problem; what it returns is a record of plain JSON values. Knows nothing of routes, so that
more than one protocol plays the same sessions.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from convgym.service.plays import AgentPlay, UserPlay, size_of
from convgym.service.problems import Problem
from convgym.service.requests import CloseRequest, ResetRequest, StepRequest
from convgym.service.responders import PolicyResponder
from convgym.service.sessions import Session
from convgym.service.state import State

CHOOSES = ("task_id", "user_seed", "wording_seed", "split", "topic")
"""Options by which a client would choose, or narrow down, whose role it is told."""


class EnvironmentSessions:
    """Of one service; every call is one of `owner`, the name of a key."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def reset(self, owner: str, asked: ResetRequest) -> dict[str, Any]:
        """Begin an episode, in a new session or in one's own."""
        state = self._state
        if asked.session_id is not None:
            return await self._again(owner, asked)
        state.sessions.check_room(owner)
        make = _as_user(state, asked) if asked.side == "user" else _as_agent(state, asked)
        play, record = await state.work.run(owner, make)
        try:
            session = state.sessions.open(owner, play)
        except Problem:
            play.close()
            raise
        return {"session_id": session.id, "side": play.side, **record}

    async def step(self, owner: str, asked: StepRequest) -> dict[str, Any]:
        """One turn."""
        state = self._state
        session = state.sessions.get(owner, asked.session_id)
        size = size_of(asked.action)
        if size > state.settings.max_message_characters:
            raise Problem(
                413, "too_large",
                f"the action has {size} characters; a step takes "
                f"{state.settings.max_message_characters} at most",
            )  # fmt: skip
        record = await self._held(
            session, size, lambda: session.play.step(asked.action, asked.turn)
        )
        state.metrics.count("convgym_steps_total", side=session.play.side)
        return {"session_id": session.id, "side": session.play.side, **record}

    def close(self, owner: str, asked: CloseRequest) -> None:
        """End a session; raises Problem 409 while it has a step under way."""
        session = self._state.sessions.get(owner, asked.session_id)
        if session.busy:
            raise Problem(409, "session_busy", "this session has a step under way; await it first")
        self._state.sessions.close(session)

    async def _again(self, owner: str, asked: ResetRequest) -> dict[str, Any]:
        state = self._state
        session = state.sessions.get(owner, str(asked.session_id))
        if asked.keywords or asked.env_id is not None or asked.side != session.play.side:
            raise Problem(
                422, "not_allowed",
                "a session keeps its environment, keywords and side; open another for others",
            )  # fmt: skip
        again = _as_user(state, asked) if isinstance(session.play, UserPlay) else None

        def begin() -> dict[str, Any]:
            """What was said before is written once nothing can be refused any more."""
            if again is not None:
                before = session.play
                session.play, record = again()
                state.retire(owner, before)
            else:
                agent: AgentPlay = session.play
                seed = state.drawn_seed() if asked.seed is None else asked.seed
                said = agent.conversation()
                record = agent.reset(seed, asked.options)
                state.keep(owner, said)
            session.characters = 0
            return record

        record = await self._held(session, 0, begin)
        return {"session_id": session.id, "side": session.play.side, **record}

    async def _held(
        self, session: Session, characters: int, function: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Run it in a thread, with the session held until the thread is done."""
        state = self._state
        state.sessions.hold(session, characters)

        def run() -> dict[str, Any]:
            try:
                return function()
            finally:
                state.sessions.free(session)

        return await state.work.run(session.owner, run, unused=lambda: state.sessions.free(session))


def _as_agent(state: State, asked: ResetRequest) -> Callable[[], tuple[Any, dict[str, Any]]]:
    def make() -> tuple[Any, dict[str, Any]]:
        env_id = state.environments.checked(asked.env_id)
        env = state.environments.make(env_id, asked.keywords)
        play = AgentPlay(env, env_id, state.conversations.on)
        try:
            seed = state.drawn_seed() if asked.seed is None else asked.seed
            return play, play.reset(seed, asked.options)
        except BaseException:
            play.close()
            raise

    return make


def _as_user(state: State, asked: ResetRequest) -> Callable[[], tuple[Any, dict[str, Any]]]:
    """The role names what the task is about, so that a client may not choose the task.

    Else it could ask as the user what it then does as the agent.
    """
    responder = state.responding().of("", secrets.token_hex(8)).responder
    if not isinstance(responder, PolicyResponder):
        raise Problem(404, "no_policy", "the customer of a language model is played by /v1/reply")
    chosen = [name for name in CHOOSES if asked.options.get(name) is not None]
    if (asked.seed is not None or chosen) and not state.settings.privileged:
        raise Problem(
            403, "hidden",
            "who plays the user is told what the task is about, so this service draws the task "
            f"itself; leave {chosen[0] if chosen else 'seed'} away",
        )  # fmt: skip
    if asked.keywords or asked.env_id not in (None, state.environments.ids[0]):
        raise Problem(422, "not_allowed", "who plays the user takes the policy's own environment")

    def make() -> tuple[Any, dict[str, Any]]:
        seed = state.drawn_seed() if asked.seed is None else asked.seed
        dialogue = responder.dialogue(seed, asked.options)
        play = UserPlay(dialogue, state.environments.ids[0], responder.name)
        try:
            return play, play.reset()
        except BaseException:
            play.close()
            raise

    return make
