"""Routes of replies: a history in, what the policy says out."""

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
from convgym.service.requests import ChatRequest, ReplyRequest
from convgym.service.responders import Said
from convgym.service.state import State


def reply_routes(state: State) -> APIRouter:
    """`/v1/reply`, `/v1/chat/completions`, `/v1/models`."""
    router = APIRouter(prefix="/v1")
    limits = state.settings

    async def answered(
        owner: str, history: Sequence[Said], seed: int | None, options: Mapping[str, Any]
    ) -> Answer:
        responder = state.responding()
        answer = await state.replying.run(owner, lambda: responder.reply(history, seed, options))
        state.metrics.count("convgym_replies_total")
        if state.conversations.on:
            said = messages_of(answer)
            state.conversations.chatted(owner, responder.name, history, said, answer.ended)
        return answer

    @router.post("/reply")
    async def reply(asked: ReplyRequest, request: Request) -> dict[str, Any]:
        history = history_of(asked.history, limits.max_messages, limits.max_message_characters)
        answer = await answered(request.scope[OWNER], history, asked.seed, asked.options)
        record = answer_record(answer)
        return {"reply": record.pop("text"), "policy": state.policy, **record}

    @router.post("/chat/completions", response_model=None)
    async def chat(asked: ChatRequest, request: Request) -> Any:
        if asked.n not in (None, 1):
            raise Problem(422, "not_allowed", f"n is {asked.n}; there is one reply at a time")
        history = history_of(asked.messages, limits.max_messages, limits.max_message_characters)
        answer = await answered(request.scope[OWNER], history, asked.seed, {})
        if asked.stream:
            return StreamingResponse(chunks(state.policy, answer), media_type="text/event-stream")
        return completion(state.policy, answer)

    @router.get("/models")
    async def models() -> dict[str, Any]:
        one = {"id": state.policy, "object": "model", "created": 0, "owned_by": "convgym"}
        return {"object": "list", "data": [one] if state.policy else []}

    return router
