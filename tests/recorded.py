"""Recorded conversations for tests: made in a line, or real ones where they are at hand."""

import os
from pathlib import Path

import pytest

from convgym.conversation import Conversation, Message
from convgym.data.logs import LogReader

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "datasets" / "samples" / "support_sample.jsonl"


def corpus(name: str, split: str = "train") -> Path:
    """A real corpus; skips the test where there is none."""
    folder = os.environ.get("CONVGYM_DATA") or ROOT.parent / "shared" / "data"
    path = Path(folder) / name / f"{split}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no real data at {path}; set CONVGYM_DATA to its folder")
    return path


def customer_turns(part: str, most: int) -> tuple[list[str], list[str]]:
    """About `most` turns of MultiDoGO's customers, spread over a part, and their first intents."""
    found = [
        (turn.content, turn.intents[0])
        for conversation in LogReader(corpus("multidogo", part))
        for turn in conversation.messages
        if turn.intents
    ]
    step = len(found) // most
    return [text for text, _ in found[::step]], [name for _, name in found[::step]]


def talk(identity: str, *said: str, **fields) -> Conversation:
    """A conversation; a text that begins with "a:" is the assistant's."""
    messages = [
        Message("assistant", text[2:]) if text.startswith("a:") else Message("user", text)
        for text in said
    ]
    return Conversation(identity, tuple(messages), **fields)
