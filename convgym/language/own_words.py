"""What of a reply is the agent's own speech.

    <think>…</think>, code, comments, raw data, calls    are not read
    "> what the user wrote", "a longer quotation"         nor is what somebody else says
    Customer: yes, please                                 from here on the agent plays a dialogue

Linear in the text.
"""

from __future__ import annotations

import re

_ROLES = (
    "customer|user|human|client|caller|reader|buyer|visitor|guest|patient|student|member|system"
    "|tool"
)
_OTHERS = re.compile(
    rf"^[ \t>*_]*(?:<\|im_start\|>[ \t]*)?(?:{_ROLES})[ \t*_]*(?::|\n)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of somebody else; what follows is a dialogue that the agent plays by itself."""
_THOUGHTS = re.compile(
    r"^[ \t]*(?:thoughts?|reasoning|analysis|action(?: input)?|observation|tool(?: result| call)?"
    r"|note to [\w ]{1,30}|result|output)[ \t]*:.*$",
    re.IGNORECASE | re.MULTILINE,
)
_OPENING = re.compile(
    r"<!--|```|<(tool_\w{1,20}|function\w{0,9})>"
    r"|<(\w{1,20})[^<>]{0,99}(?:hidden|display)[^<>]{0,99}>",
    re.IGNORECASE,
)
_RAW = re.compile(r"\{[^{}]*\}|\b\w+\([^()\n]{3,}\)|^[ \t]*>.*$", re.MULTILINE)
"""Raw data, calls and quoted lines."""
_LABELS = re.compile(r"\b(deny|inform|instruct|confirm|offer|promise|quote) ?[:=(] ?\w")
"""Names of acts with their arguments: a reply that writes two such labels itself tells nothing."""
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]{1,400})[\"”»]")
_LONG_QUOTE = 4
"""Words from which on something in quotation marks is somebody's speech, and no label."""


def own_words(text: str, names: tuple[str, ...]) -> list[tuple[str, bool]]:
    """What is the agent's own speech, and what belongs to a dialogue it makes up (True)."""
    if "</think>" in text:
        text = text.rpartition("</think>")[2]
    if "<think>" in text:
        text = text.partition("<think>")[0]
    if "<" in text or "(" in text or "{" in text or "`" in text or ">" in text:
        text = _RAW.sub(_unraw, _outside(text))
    if '"' in text or "“" in text or "„" in text or "«" in text:
        text = _QUOTED.sub(lambda m: _unquoted(m, names), text)
    if ":" in text or "<|" in text:
        text = _THOUGHTS.sub(" ", text)
        other = _OTHERS.search(text)
        if other:
            rest = text[other.end() :].partition("\n")[2]
            return [(text[: other.start()], False), (rest, True)]
    return [(text, False)]


def labels_itself(text: str) -> bool:
    """It writes labels of acts with their arguments, as if to be scored by them."""
    if not (":" in text or "(" in text or "=" in text):
        return False
    return len(set(_LABELS.findall(text.lower()))) > 1


def _outside(text: str) -> str:
    """`text` without comments, code, hidden and tool markup; what stays open hides the rest."""
    kept, position = [], 0
    while opening := _OPENING.search(text, position):
        kept.append(text[position : opening.start()])
        tag = (opening[1] or opening[2] or "").lower()
        close = f"</{tag}>" if tag else {"<!--": "-->", "```": "```"}[opening[0]]
        end = re.compile(re.escape(close), re.IGNORECASE).search(text, opening.end())
        if end is None:
            return " ".join(kept)
        position = end.end()
    kept.append(text[position:])
    return " ".join(kept)


def _unraw(match: re.Match[str]) -> str:
    braces = match[0].startswith("{") and not {'"', "'"}.intersection(match[0])
    return match[0] if braces else " "


def _unquoted(match: re.Match[str], names: tuple[str, ...]) -> str:
    words = match[1].split()
    if len(words) < _LONG_QUOTE or match[1].lower() in {name.lower() for name in names}:
        return f" {match[1]} "
    return " , "
