"""Routes of replies: a history in, what the policy says out; and what it came to in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from convgym.service.chat import chunks, completion, history_of
from convgym.service.dialogue import Answer
from convgym.service.guard import OWNER
from convgym.service.plays import answer_record, messages_of
from convgym.service.problems import Problem
from convgym.service.requests import ChatRequest, OutcomeRequest, ReplyRequest
from convgym.service.responders import Said
from convgym.service.state import State


def reply_routes(state: State) -> APIRouter:
    """`/v1/reply`, `/v1/chat/completions`, `/v1/models`, `/v1/outcome`."""
    router = APIRouter(prefix="/v1")
    limits = state.settings

    async def answered(
        owner: str,
        name: str | None,
        history: Sequence[Said],
        seed: int | None,
        options: Mapping[str, Any],
    ) -> tuple[Answer, str, str | None]:
        """The answer, whose it is, and what the conversation is called."""
        split = state.responding()
        chat = state.chats.of(owner, name, history) if state.remembers else None
        variant = split.first if chat is None else split.of(owner, chat.name)
        responder = variant.responder
        try:
            answer = await state.replying.run(
                owner, lambda: responder.reply(history, seed, options)
            )
        except BaseException:
            if chat is not None:
                state.chats.left(chat)
            raise
        state.metrics.count("convgym_replies_total", policy=variant.name)
        if chat is not None:
            chat.policy, chat.share = variant.name, variant.share
            state.chats.replied(chat, history, messages_of(answer), answer)
            name = chat.name
        return answer, variant.name, name

    @router.post("/reply")
    async def reply(asked: ReplyRequest, request: Request) -> dict[str, Any]:
        history = history_of(asked.history, limits.max_messages, limits.max_message_characters)
        answer, policy, name = await answered(
            request.scope[OWNER], asked.conversation_id, history, asked.seed, asked.options
        )
        record = answer_record(answer)
        head = {"reply": record.pop("text"), "policy": policy, "conversation_id": name}
        return {**head, **record}

    @router.post("/chat/completions", response_model=None)
    async def chat(asked: ChatRequest, request: Request) -> Any:
        if asked.n not in (None, 1):
            raise Problem(422, "not_allowed", f"n is {asked.n}; there is one reply at a time")
        history = history_of(asked.messages, limits.max_messages, limits.max_message_characters)
        answer, policy, name = await answered(
            request.scope[OWNER], asked.conversation_id, history, asked.seed, {}
        )
        if asked.stream:
            return StreamingResponse(chunks(policy, answer, name), media_type="text/event-stream")
        return completion(policy, answer, name)

    @router.get("/models")
    async def models() -> dict[str, Any]:
        names = [one.name for one in state.split.variants] if state.split is not None else []
        made = {"object": "model", "created": 0, "owned_by": "convgym"}
        return {"object": "list", "data": [{"id": name, **made} for name in names]}

    @router.get("/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        found = [one for one in (await models())["data"] if one["id"] == name]
        if not found:
            raise Problem(404, "no_model", "there is no such model here; /v1/models lists them")
        return dict(found[0])

    @router.post("/outcome")
    async def outcome(asked: OutcomeRequest, request: Request) -> dict[str, Any]:
        told = {"reward": asked.reward, "success": asked.success}
        given = {name: value for name, value in told.items() if value is not None}
        if not given:
            raise Problem(422, "not_allowed", "neither a reward nor a success came; say one")
        if not state.conversations.on:
            raise Problem(
                404, "no_log",
                "this service logs no conversations; start it with --log-conversations",
            )  # fmt: skip
        owner, name = request.scope[OWNER], asked.conversation_id
        # The answer is the same for a conversation under way, one that is over, and another's.
        if not state.chats.outcome(owner, name, given):
            state.conversations.write_outcome(owner, name, given)
        return {"conversation_id": name, "noted": given}

    return router
