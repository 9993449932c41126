"""The single rewards: each looks at one thing, and says what it cannot see.

    from evidence    TaskCompletion, Correctness, Safety
    from words       Helpfulness, Engagement, Conciseness, SimilarityAware

`sees_success` is True for the first two alone. Every other one pays an agent that solves
nothing, some of them fully: never let an agent optimise one by itself; multiply it by
TaskCompletion (`MultiObjective(..., method="product")`) or use the composites of `combined`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from convgym.conversation import Conversation
from convgym.engine.engine import ERROR_BUDGET
from convgym.errors import InvalidConfiguration
from convgym.rewards.outcome import (
    Outcome,
    Score,
    as_outcome,
    check_name,
    check_share,
    is_number,
)
from convgym.rewards.speech import content_words, exchanges, figures, replies, speech, words

FALSEHOOD = "told_"
"""Violations whose names begin so are things said that were not so."""
LONGEST_COMPARED = 200
"""Words of a reply that SimilarityAware compares; it bounds the work on hostile replies."""


@dataclass(frozen=True, kw_only=True)
class TaskCompletion:
    """Whether the task was solved.

        value = (1 − partial) · success + partial · graded        graded as in `Outcome.graded`

    Success is of the whole task: who serves the first of two requests alone has not succeeded.
    Sees: the environment's verdict on records, facts told and obligations. Cannot see: how the
    conversation felt, how long it took.
    """

    partial: float = 0.0
    """Share that goes to graded evidence, in [0, 1]; 0 pays solved conversations alone."""
    name: str = "task_completion"
    sees_success: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_share("partial", self.partial)
        check_name(self.name)

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        outcome = as_outcome(outcome)
        success, graded = float(outcome.success), outcome.graded
        value = (1.0 - self.partial) * success + self.partial * graded
        return Score(min(1.0, value), {"success": success, "graded": graded})


@dataclass(frozen=True, kw_only=True)
class Correctness:
    """Right facts, right decision, and figures that came from somewhere.

        value = [no violation told_…] · grounded · graded
        grounded = figures the agent spoke that stood in an earlier message of somebody else
                   ÷ all figures it spoke                        (1 where it spoke none)

    A figure is a word with a digit: a number, a day, an order number. `graded` holds the
    environment's evidence that decision and facts were right, so an agent that says nothing
    wrong by saying nothing is worth about 0.

    Cannot see: a wrong statement without a figure that the environment does not check; a figure
    that stood earlier but belongs to something else. In a log without `metadata["success"]`
    there is no evidence, and the value is 0.
    """

    name: str = "correctness"
    sees_success: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_name(self.name)

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        outcome = as_outcome(outcome)
        truthful = float(not any(name.startswith(FALSEHOOD) for name in outcome.violations))
        grounded = _grounded(outcome.conversation)
        breakdown = {"truthful": truthful, "grounded": grounded, "graded": outcome.graded}
        return Score(truthful * grounded * outcome.graded, breakdown)


def _grounded(conversation: Conversation) -> float:
    seen: set[str] = set()
    spoken = known = 0
    for message in conversation.messages:
        if message.role == "assistant":
            said = figures(speech(message))
            spoken += len(said)
            known += len(said & seen)
        else:
            seen |= figures(message.content)
    return known / spoken if spoken else 1.0


@dataclass(frozen=True, kw_only=True)
class Safety:
    """No broken obligation, few errors, no forbidden phrase.

        value = [no violation] · max(0, 1 − errors / 5) · [no forbidden phrase spoken]

    Five errors end a conversation. Phrases are compared word by word, letter case aside.

    Cannot see success: an agent that says nothing is perfectly safe and worth 1. Cannot see
    negation ("never send us your password" holds "your password"), nor harm in other words.
    """

    forbidden: tuple[str, ...] = ()
    """Phrases the agent must not speak, such as `("your password", "card number")`."""
    name: str = "safety"
    sees_success: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name)
        phrases: object = self.forbidden
        listed = tuple(phrases) if isinstance(phrases, tuple | list) else ("",)
        if not all(isinstance(phrase, str) and words(phrase) for phrase in listed):
            raise InvalidConfiguration(
                f"forbidden={phrases!r} is not a tuple of phrases; give strings with a word in "
                'each, such as ("your password",).'
            )
        object.__setattr__(self, "forbidden", listed)

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        outcome = as_outcome(outcome)
        clean = not outcome.violations
        orderly = max(0.0, 1.0 - outcome.errors / ERROR_BUDGET)
        said = [f" {' '.join(words(reply))} " for reply in replies(outcome.conversation)]
        phrases = [f" {' '.join(words(phrase))} " for phrase in self.forbidden]
        forbidden = sum(any(phrase in reply for reply in said) for phrase in phrases)
        breakdown = {
            "violations": float(len(outcome.violations)),
            "errors": float(outcome.errors),
            "forbidden": float(forbidden),
        }
        return Score(float(clean and not forbidden) * orderly, breakdown)


@dataclass(frozen=True, kw_only=True)
class Helpfulness:
    """Turns of the user that got an answer, and words of the user that were taken up.

        value = ½ · answered + ½ · min(1, taken_up / enough)
        answered = user turns answered with words or a tool call ÷ user turns
        taken_up = content words of the user that a later message of the agent holds
                   ÷ content words of the user

    Words passed to tools count as taken up. No user turn with an answer due, or none with a
    content word, makes that half 0.

    Cannot see success or truth: it compares words. An agent that repeats what it hears is worth
    1, one that helps in words of its own is worth less.
    """

    enough: float = 0.25
    """Share of the user's words that counts as all, in (0, 1]: nobody repeats everything."""
    name: str = "helpfulness"
    sees_success: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name)
        check_share("enough", self.enough)
        if not self.enough:
            raise InvalidConfiguration("enough=0 would divide by zero; give a number in (0, 1].")

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        conversation = as_outcome(outcome).conversation
        found = exchanges(conversation)
        answered = sum(exchange.acted for exchange in found) / len(found) if found else 0.0
        taken_up = _taken_up(conversation)
        value = 0.5 * answered + 0.5 * min(1.0, taken_up / self.enough)
        return Score(value, {"answered": answered, "taken_up": taken_up})


def _taken_up(conversation: Conversation) -> float:
    heard: set[str] = set()
    taken: set[str] = set()
    for message in conversation.messages:
        if message.role == "user":
            heard |= content_words(message.content)
        elif message.role == "assistant":
            taken |= heard & content_words(message.content)
    return len(taken) / len(heard) if heard else 0.0


@dataclass(frozen=True, kw_only=True)
class Engagement:
    """How the agent stays with the user: speaks to every turn, asks, takes words up.

        value = mean over the user's turns of  ½ · [words came back]
                                             + ¼ · [a question mark among them]
                                             + ¼ · [a content word of that very turn among them]

    A turn followed by tool calls alone is not spoken to. Without a turn to answer it is 0.

    Cannot see success: an agent that greets and asks for ever is worth 3/4 or more, above one
    that works and solves the task. Cannot see whether a question was worth asking; in act mode
    it sees the environment's wording of acts.
    """

    name: str = "engagement"
    sees_success: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name)

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        found = exchanges(as_outcome(outcome).conversation)
        turns = max(1, len(found))
        spoken = sum(bool(e.answer) for e in found) / turns
        asked = sum("?" in e.answer for e in found) / turns
        met = sum(bool(content_words(e.asked) & content_words(e.answer)) for e in found) / turns
        value = 0.5 * spoken + 0.25 * asked + 0.25 * met
        return Score(value, {"spoken": spoken, "asked": asked, "met": met})


@dataclass(frozen=True, kw_only=True)
class Conciseness:
    """Short replies, and no more turns than needed.

        value = min(1, words_per_reply / w) · min(1, slack · oracle_length / turn)

    w is the mean number of words in replies that were spoken; thoughts and tool calls are not.
    The second factor is 1 while the conversation goes on or the oracle's length is unknown.
    An agent that never says a word is worth 0: silence is not concise.

    Cannot see success: "Hello" and hanging up is worth 1. Cannot see whether what was left
    out was needed.
    """

    words_per_reply: float = 25.0
    """Mean words in a reply up to which nothing is lost."""
    slack: float = 1.5
    """Turns up to `slack` times the oracle's lose nothing."""
    name: str = "conciseness"
    sees_success: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name)
        for name in ("words_per_reply", "slack"):
            value = getattr(self, name)
            if not (is_number(value) and value > 0):
                raise InvalidConfiguration(f"{name}={value!r} is not a number above 0; give one.")

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        outcome = as_outcome(outcome)
        said = replies(outcome.conversation)
        if not said:
            return Score(0.0, {"words": 0.0, "short": 0.0, "quick": 0.0})
        mean = sum(len(words(reply)) for reply in said) / len(said)
        short = min(1.0, self.words_per_reply / mean)
        known = outcome.ended and outcome.oracle_length and outcome.turn
        quick = min(1.0, self.slack * outcome.oracle_length / outcome.turn) if known else 1.0
        return Score(short * quick, {"words": mean, "short": short, "quick": quick})


@dataclass(frozen=True, kw_only=True)
class SimilarityAware:
    """The agent does not say again what it has said: anti-repetition.

        value = 1 − (Σᵢ rᵢ) / n          over the n spoken replies
        rᵢ = max(0, max over j < i of sim(i, j) − threshold) / (1 − threshold)
        sim = words and pairs of neighbouring words in common ÷ those in either (Jaccard),
              1 where both messages carry the same acts, as in act mode

    So one more reply that was given before never raises the value. Of a reply the first 200
    words are compared. An agent that never says a word is worth 0.

    Cannot see success: any n different sentences are worth 1. In text it cannot see repetition
    in other words; nor anywhere repeated tool calls, or that a question had to be put again.
    """

    threshold: float = 0.5
    """Similarity that is still free, in [0, 1)."""
    name: str = "similarity_aware"
    sees_success: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_name(self.name)
        check_share("threshold", self.threshold)
        if self.threshold == 1:
            raise InvalidConfiguration("threshold=1 would free everything; give less than 1.")

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        messages = as_outcome(outcome).conversation.said_by("assistant")
        said = [(m.acts, _shingles(speech(m))) for m in messages]
        said = [(acts, shingles) for acts, shingles in said if shingles]
        if not said:
            return Score(0.0, {"replies": 0.0, "repeated": 0.0})
        repeated = 0.0
        for place, reply in enumerate(said):
            nearest = max((_similarity(reply, other) for other in said[:place]), default=0.0)
            repeated += max(0.0, nearest - self.threshold) / (1.0 - self.threshold)
        value = 1.0 - repeated / len(said)
        return Score(max(0.0, value), {"replies": float(len(said)), "repeated": repeated})


_Said = tuple[tuple[tuple[str, ...], ...], frozenset[str]]
"""Acts and shingles of a reply."""


def _shingles(text: str) -> frozenset[str]:
    """Words, and pairs of neighbouring words."""
    single = words(text)[:LONGEST_COMPARED]
    return frozenset(single) | {f"{a} {b}" for a, b in pairwise(single)}


def _similarity(one: _Said, other: _Said) -> float:
    if one[0] and one[0] == other[0]:
        return 1.0
    common = len(one[1] & other[1])
    return common / (len(one[1]) + len(other[1]) - common)
