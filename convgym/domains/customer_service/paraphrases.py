"""The desk's own wordings as examples of what an unread reply may mean."""

from __future__ import annotations

from functools import cache

from convgym.domains.customer_service.understanding import HARMLESS, read_speech
from convgym.language.phrases import packaged_banks
from convgym.language.reranker import NearestLabel


@cache
def own_reranker() -> NearestLabel:
    """Train wordings that mean one thing, by character n-grams; proposes harmless acts only."""
    bank = packaged_banks("convgym.domains.customer_service", "agent_phrases.toml")["train"]
    examples = []
    for act in bank:
        for phrase in bank.variants(act):
            labels = {str(claim) for claim in read_speech(phrase)}
            if len(labels) == 1:
                examples.append((phrase, labels.pop()))
    return NearestLabel(examples, allowed=HARMLESS)
