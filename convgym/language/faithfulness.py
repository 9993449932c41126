"""Does a written turn do what the user decided to do, and nothing else?

    text ─► length ─► plain words? ─► own values? ─► strange values? ─► own acts? ─► other acts?
                                                                            └── "" where all is well

A writer may find other words; it may not lose or invent a value, and may not agree, refuse,
request or leave where the user did not. Where it does, its text is not said (`keeps` gives a
reason), the draft is.

What a newcomer would get wrong: the tagger is not asked which acts a text does, which it often
cannot tell, but whether these acts are *plausible*: an act that the request has need only reach
`PLAUSIBLE`, and `LIFT` times what words unknown to the tagger would get (much, where it has few
examples); one that it lacks must stand out (`INTRUDES`, and `MARGIN` times the best of its own).
A "not" that the draft lacks makes a wish doubtful. The numbers were chosen on held-out wordings
that the tagger was not fitted to; the test holds the shares.
"""

from __future__ import annotations

import re

from convgym.language.tagging import ActTagger
from convgym.language.writing import WriteRequest

PLAUSIBLE, PLAUSIBLE_WITH_A_NOT = 0.0022, 0.05
LIFT = 2.5
INTRUDES, INTRUDES_IN_A_CLAUSE = 0.3, 0.7
MARGIN = 3.0
MOST_CHARACTERS = 600
"""A turn is no letter."""
WEIGHTY = ("affirm", "negate", "give_up", "bye", "accept_", "request_", "inform_")
"""Beginnings of the acts that decide something; a writer adds none of them."""

_MARKUP = re.compile(
    r"[<>{}|\\`\[\]^]|\*\*|^\s*#|__|~~|://|www\.|tool_?call|function_?call|\"\s*:\s*[\"\d\[{]",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"^[\s\"']*(?:customer|user|client|agent|assistant|system|human|support|bot|ai|me|you|reply"
    r"|response|answer|message|draft|output|rewritten|final\w*)(?:'s)?(?: message| reply| turn)?"
    r"\s*:",
    re.IGNORECASE | re.MULTILINE,
)
_META = re.compile(
    r"\bas an? (?:ai|artificial|(?:large )?language model|assistant|chat ?bot|virtual)\b"
    r"|\b(?:i am|i'm|im) an? (?:ai|language model|virtual assistant|chat ?bot)\b"
    r"|\blanguage model\b|\bi (?:can ?not|can'?t) (?:comply|fulfil|assist)"
    r"|\b(?:sure|certainly|of course|okay|ok|absolutely)[,!.]? "
    r"(?:here(?:'s| is| are|'re) (?:a|an|the|my|your|some)|i can (?:help|re))"
    r"|\bhere(?:'s| is) (?:a|an|the|my|your|another|one) (?:\w+ )?"
    r"(?:message|version|rewrite|rephras\w+|paraphras\w+|response|reply|turn|text|draft)"
    r"|\b(?:rewritten|rephrased|paraphrased)\b|\bthe (?:draft|persona|prompt|system prompt)\b"
    r"|\bhow (?:can|may) i (?:help|assist) you\b|\bthank you for (?:contacting|reaching out)"
    r"|\broleplay|\bin character\b|\bnote:",
    re.IGNORECASE,
)
_NOISE = re.compile(r"(.)\1{5,}|\b(\w+)(?:\W+\2\b){3,}|[^\s@]{31,}", re.IGNORECASE)
_VALUE_LIKE = re.compile(r"[\w.+-]*@[\w.-]*|\w*\d[\w'-]*(?:[.,:/]\d+)*")
_EDGE_BEFORE, _EDGE_AFTER = r"(?<![\w@])", r"(?![\w@])"
_PLAIN_PUNCTUATION = frozenset(" \n.,;:!?'\"’‘“”()-–—…/&%$€£+@#*_=~")


_WISHES = ("affirm", "accept_", "request_")
_NOT = re.compile(r"\b(?:not|never|no|cannot)\b|n['’]?t\b", re.IGNORECASE)
_JOINS = re.compile(r"[,.!?;]*\s+(?:and|but|also|so|then)\s+|\n+", re.IGNORECASE)
_STOPS = re.compile(r"[,.!?;]\s+(?:(?:and|but|so)\s+)?|\n+", re.IGNORECASE)
_MOST_CLAUSES = 16


def keeps(text: str, request: WriteRequest, tagger: ActTagger) -> str:
    """A few words on what is wrong with `text` as the turn of `request`; empty where it is fine."""
    return (
        _shape(text, request.draft)
        or _values(text, request, tagger)
        or _acts(text, request, tagger)
    )


def _shape(text: str, draft: str) -> str:
    if not text.strip():
        return "empty"
    if len(text) > min(MOST_CHARACTERS, 4 * len(draft) + 200):
        return "too long"
    if _MARKUP.search(text):
        return "markup"
    if _ROLE.search(text):
        return "role prefix"
    if _META.search(text):
        return "talks about its task"
    plain = sum(c.isalnum() or c in _PLAIN_PUNCTUATION for c in text)
    if not any(c.isalnum() for c in text) or plain < len(text) - 3:
        return "line noise"
    if _NOISE.search(text) or text.count("\n") > 4:
        return "line noise"
    return ""


def _values(text: str, request: WriteRequest, tagger: ActTagger) -> str:
    rest = text
    for _, slot, value in sorted(request.spoken, key=lambda said: -len(said.value)):
        if not slot:
            continue
        exact = "@" in value or (value.isalnum() and any(c.isdigit() for c in value))
        pattern = _EDGE_BEFORE + re.escape(value) + _EDGE_AFTER
        rest, count = re.subn(pattern, " ", rest, flags=0 if exact else re.IGNORECASE)
        if not count:
            return f"the {slot} is missing"
    before = [request.draft, *(said for _, said in request.history)]
    known = {found.lower() for line in before for found in _value_like(line)}
    if any(found.lower() not in known for found in _value_like(rest)):
        return "a value of its own"
    known = {value.lower() for line in before for _, value in tagger.values(line)}
    if any(value.lower() not in known for _, value in tagger.values(rest)):
        return "a value of its own"
    return ""


def _value_like(text: str) -> list[str]:
    return [found.rstrip(".,") for found in _VALUE_LIKE.findall(text)]


def _acts(text: str, request: WriteRequest, tagger: ActTagger) -> str:
    known = frozenset(tagger.acts)
    wanted = [said.act for said in request.spoken if said.act in known]
    if not wanted:
        return ""
    parts = tagger.part_scores(text)
    turned = _NOT.search(text) and not _NOT.search(request.draft)
    for act in wanted:
        least = PLAUSIBLE_WITH_A_NOT if turned and act.startswith(_WISHES) else PLAUSIBLE
        if max(part[act] for part in parts) < max(least, LIFT * tagger.chance[act]):
            return f"does not {act}"
    others = [a for a in known - set(wanted) - tagger.value_acts if a.startswith(WEIGHTY)]
    joined = [clause for clause in _JOINS.split(text)[1:] if clause]
    stopped = [clause for clause in _STOPS.split(text) if " " in clause]
    clauses = [*joined[:_MOST_CLAUSES], *stopped[:_MOST_CLAUSES]]
    alone = [tagger.part_scores(clause)[0] for clause in clauses]
    for least, part in [
        *((INTRUDES, part) for part in parts),
        *((INTRUDES_IN_A_CLAUSE, part) for part in alone),
    ]:
        intruder = max(others, key=part.__getitem__, default="")
        own = max(part[act] for act in wanted)
        if intruder and part[intruder] > max(least, MARGIN * own):
            return f"does {intruder} too"
    return ""
