"""Small cue lists: what a customer's turn says, as far as a few words tell.

    "Hi there"                  greet          "Sure, I'll wait"     hold
    "no thanks, that's all"     no_more        "Great"               acknowledge
    "ok thank you, bye"         bye            "My order is late"    None: more than small talk

A turn is an act of small talk only if *every* word of it is small talk, which keeps names,
numbers, business and swearing out of harvested phrases. English only; `extra_words` opens
the list for another vocabulary. Knows nothing of logs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from convgym.conversation import Message


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())



WORD = re.compile(r"[a-z0-9'$]+")
THANKS = re.compile(r"\b(thanks?|thx|ty|appreciate)\b")
NEGATION = re.compile(r"\b(no|not|nope|never)\b|n't")
BYE = re.compile(r"\b(bye+|goodbye|have an? (\w+ )?(great|good|nice|wonderful|lovely)|take care)\b")
DIGIT = re.compile(r"\d")

BACKCHANNELS = _words(
    "ok okay yes yeah yep ya no nope nothing sure thanks thank you great perfect cool awesome "
    "wonderful please hi hello hai hey there"
)
GREETINGS = _words("hi hii hiya hello helo hai hey heya greetings morning afternoon evening")
GREETING_FILL = _words(
    "good very happy day there sir madam ma'am mam all everyone team to you how are r u doing today"
)

# The first pattern that is found names the act.
PATTERNS = tuple(
    (act, re.compile(pattern))
    for act, pattern in (
        ("bye", rf"{BYE.pattern}|\bsee (you|ya)\b"),
        (
            "no_more",
            r"\b(nothing|enough|no more|all set|all i need\w*|no need)\b|\bthat'?s (all|it)\b"
            r"|\bthat (is|was|will be) (all|it)\b|\bthat'll be all\b|^no,? (thanks?|thank you)\b",
        ),
        ("thank", rf"{THANKS.pattern}|\bthank ?(yo)?u\b"),
        ("hold", r"\b(wait|waiting|hold on|moment|take your time|one sec|second|minute)\b"),
        ("negate", r"^(no|nope|nah|not|never|none)\b|\bdon'?t\b"),
        ("affirm", r"\b(yes|yeah|yep|yup|ya|yea|correct|confirm|exactly|of course|right)\b"),
        (
            "acknowledge",
            r"\b(ok|okay|okey|k|sure|great|fine|alright|perfect|cool|good|nice|got it|oh|hmm+"
            r"|awesome|wonderful|understood|i see|excellent|sounds)\b",
        ),
    )
)
SMALL_TALK = (
    BACKCHANNELS
    | GREETINGS
    | GREETING_FILL
    | _words(
        "okey k fine alright right correct exactly confirm confirmed course of indeed yup yea sir "
        "no nope nah not never none more else enough need really now that that's thats that'll is "
        "was will be all it it's its set for i i'll i'm am me my do don't dont just a an one bye "
        "byee goodbye take care see ya soon later have nice lovely great good wonderful awesome "
        "amazing day evening night weekend rest your you're the time too as well same so much very "
        "lot many again thankyou thx ty u appreciate appreciated help helping helpful support "
        "information info service assistance kindly kind wait waiting hold on moment sec second "
        "minute minutes few couple let get got look looking check checking up oh ah hmm hmmm well "
        "understood excellent sounds sound this here can could would like want anything everything "
        "then but and or in at with welcome pleasure absolutely definitely certainly totally "
        "works work done makes sense true sorry problem worries thats' y'all needed today"
    )
)

# What logs call these acts, spelt in lower-case letters only; a label only admits acts.
LABELS = {
    **dict.fromkeys(("openinggreeting", "greeting", "greet", "hello", "hi"), ("greet",)),
    **dict.fromkeys(("thankyou", "thank", "thanks", "thanking"), ("thank", "bye", "no_more")),
    **dict.fromkeys(("closinggreeting", "goodbye", "bye", "closing"), ("bye",)),
    **dict.fromkeys(
        ("confirmation", "confirm", "affirm", "yes", "accept", "agree", "acknowledge", "ack"),
        ("affirm", "acknowledge", "hold"),
    ),
    **dict.fromkeys(("rejection", "reject", "negate", "deny", "no"), ("negate", "no_more")),
    **dict.fromkeys(("outofdomain", "hold", "wait"), ("hold",)),
}


def words_of(text: str) -> list[str]:
    """Lower-case words, ASCII letters, digits, `'` and `$`; punctuation falls away."""
    return WORD.findall(text.lower())


def acts_of(message: Message) -> list[str]:
    """The names of a turn's acts: of `(domain, act, slot, value)` the second."""
    return [act[1] if len(act) > 2 else act[0] for act in message.acts if act]


def labels_of(message: Message) -> list[str]:
    """The names of a turn's intents and acts."""
    return [*message.intents, *acts_of(message)]


def is_greeting(words: Iterable[str]) -> bool:
    """True where every word greets: "hi", "hello there", "good morning sir"."""
    said = set(words)
    return bool(said & GREETINGS) and said <= GREETINGS | GREETING_FILL


def is_bare_greeting(message: Message) -> bool:
    """A greeting and nothing else, by the log's labels where the turn has them."""
    labels = labels_of(message)
    if labels:
        return not message.slots and all(_admits(label) == ("greet",) for label in labels)
    return is_greeting(words_of(message.content))


def small_talk_act(message: Message, extra_words: Collection[str] = ()) -> str | None:
    """The one act of `convgym.users.fit.SMALL_TALK` that a turn of small talk is, or None.

    Where the turn is labelled, cue and label must agree.
    """
    act = _cue_act(message.content, extra_words)
    labels = labels_of(message)
    if act is None or (labels and not any(act in _admits(label) for label in labels)):
        return None
    return act


def _cue_act(text: str, extra_words: Collection[str]) -> str | None:
    words = words_of(text)
    if is_greeting(words):
        return "greet"
    if not words or not all(word in SMALL_TALK or word in extra_words for word in words):
        return None
    plain = " ".join(words)
    return next((act for act, pattern in PATTERNS if pattern.search(plain)), None)


def _admits(label: str) -> tuple[str, ...]:
    return LABELS.get(re.sub("[^a-z]", "", label.lower()), ())
