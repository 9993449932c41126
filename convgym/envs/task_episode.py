"""The running episode of a task of one's own, and all chance that may decide in it.

    episode.decide("volunteer")     a decision point: persona and bother tilt it    logged
    episode.chance(0.3)             yes with probability 0.3                        logged
    episode.pick(options)           one of them, each as likely                     logged
    episode.word(options)           a wording: changes nothing that is decided      not logged

Logged means: its log-probability is summed into `info["user_log_prob"]`. Every draw is a hash of
(key, stream, turn, index), so the same seeds and messages give the same episode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from convgym.engine.keys import TASK, USER, WORDING, below, draw, threshold
from convgym.envs.reply import word_set
from convgym.errors import InvalidConfiguration
from convgym.language.phrases import PhraseBank
from convgym.language.style import Style, misspelt
from convgym.users import decisions
from convgym.users.decisions import DecisionModel
from convgym.users.persona import Levels

T = TypeVar("T")

_CHANCES = 8000
"""Number of the first free draw of a turn; decision points lie below."""
_REGISTER, _START = 901, 902
"""Numbers of the conversation's draws on wording."""


class Answer(NamedTuple):
    """What the user says, and whether it leaves with it."""

    text: str
    acts: tuple[tuple[str, str], ...] = ()
    """(act, value) for `info["user_acts"]`; a value may be empty."""
    leaves: bool = False
    """The user closes the conversation, content or not."""


class Draws:
    """Draws of one key in a row, for making a task: the same key gives the same task."""

    def __init__(self, key: int) -> None:
        self._key, self._count = key, 0

    def below(self, count: int) -> int:
        """A whole number in [0, count)."""
        self._count += 1
        return below(draw(self._key, TASK, 0, self._count), count)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, each as likely."""
        return options[self.below(len(options))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        self._count += 1
        return draw(self._key, TASK, 0, self._count) < threshold(probability)


class TaskEpisode:
    """Everything that changes between reset and end. `notes` is the task's own memory."""

    def __init__(
        self,
        task_id: str,
        split: str,
        task: Any,
        *,
        user_key: int,
        wording_key: int,
        persona: Levels,
        style: Style,
        model: DecisionModel,
    ) -> None:
        self.task_id, self.split, self.task = task_id, split, task
        self.user_key, self.wording_key = user_key, wording_key
        self.persona, self.style, self.model = persona, style, model
        self.notes: dict[str, Any] = {}
        self.turn = 0
        """Agent turns so far."""
        self.bother = 0
        """Raise it where the agent bothers the user; from `decisions.GRACE` on it may leave."""
        self.errors = 0
        self.violations: list[str] = []
        """Names of broken obligations; any forfeits success."""
        self.ledger: list[str] = []
        self.earlier: list[frozenset[str]] = []
        """The content of the agent's messages so far, for noticing repetition."""
        self.tool_results: tuple[str, ...] = ()
        self.answer: Answer | None = None
        """The user's newest turn; None in a step of tools alone."""
        self.end = ""
        """Why it ended; empty while it goes on."""
        self.truncated = False
        self.user_turns = 0
        self.decided: list[tuple[str, bool]] = []
        """(decision point, yes) of this turn."""
        self._log_prob, self._drawn = 0, 0
        self._passed: dict[int, int] = {}

    # -- chance ----------------------------------------------------------------------------------

    def decide(self, point: str, situation: int = 0) -> bool:
        """A decision point of `convgym.users.decisions`, by name, tilted by the persona.

        `situation` is added to its logit, in ten-thousandths. Raises InvalidConfiguration for a
        point that there is not.
        """
        if point not in decisions.NUMBER:
            raise InvalidConfiguration(
                f"no decision point is called {point!r}; there are "
                f"{', '.join(sorted(decisions.NUMBER))}"
            )
        number = decisions.NUMBER[point]
        which = self._passed.get(number, 0)
        self._passed[number] = which + 1
        choice = self.model.choice(number, self.persona, situation)
        drawn = draw(self.user_key, USER, self.user_turns, number + decisions.STRIDE * which)
        yes = drawn < choice[0]
        self._log_prob += choice[1] if yes else choice[2]
        self.decided.append((point, yes))
        return yes

    def chance(self, probability: float) -> bool:
        """True with this probability, on a grid of 2**-16.

        Raises InvalidConfiguration for a probability outside [0, 1].
        """
        if not 0.0 <= probability <= 1.0:
            raise InvalidConfiguration(
                f"chance({probability!r}) came; a probability lies in [0, 1]"
            )
        compiled = threshold(probability)
        yes = self._next() < compiled
        exact = compiled / 2**32
        self._log_prob += _units(math.log(exact) if yes else math.log1p(-exact))
        return yes

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, each as likely; raises InvalidConfiguration where there is none."""
        if not options:
            raise InvalidConfiguration("pick() got no options; give at least one")
        chosen = options[below(self._next(), len(options))]
        self._log_prob += _units(-math.log(len(options)))
        return chosen

    def chose(self, log_prob: float) -> None:
        """Log a choice that was made elsewhere, by draws of this user's key, in nats."""
        self._log_prob += _units(log_prob)

    def _next(self) -> int:
        self._drawn += 1
        return draw(self.user_key, USER, self.user_turns, _CHANCES + self._drawn)

    def leaves_now(self) -> bool:
        """Whether patience is lost: a hazard that grows with `bother` above `decisions.GRACE`."""
        bother = min(self.bother, decisions.MOST_BOTHER)
        if bother < decisions.GRACE:
            return False
        growth = self.model.bother[decisions.LEAVE] * (bother - decisions.GRACE)
        return self.decide("leave", growth)

    # -- words -----------------------------------------------------------------------------------

    def word(self, options: Sequence[T], nth: int | None = None) -> T:
        """The `nth` of some wordings, in an order of this conversation's; by turn unless told."""
        start = below(draw(self.wording_key, WORDING, 0, _START), len(options))
        return options[(start + (self.user_turns if nth is None else nth)) % len(options)]

    def phrase(self, bank: PhraseBank, act: str) -> str:
        """The wording of an act that fits the style."""
        drawn = draw(self.wording_key, WORDING, 0, _REGISTER)
        start = draw(self.wording_key, WORDING, 0, _START)
        return bank.styled(act, self.style, drawn, start, self.user_turns)

    # -- for the environment ---------------------------------------------------------------------

    def fail(self, sentence: str) -> str:
        """Charge an error to the budget; returns nothing but its sentence."""
        self.errors += 1
        self.note("error", sentence)
        return sentence

    def note(self, event: str, detail: str) -> None:
        """Write a line to the ledger, which `render` shows."""
        self.ledger.append(f"{self.turn:>3}  {event}: {detail}")

    def begin_turn(self) -> None:
        """The user is about to speak: its choices of the turn begin anew."""
        self._log_prob = self._drawn = 0
        self._passed.clear()
        self.decided.clear()

    def end_turn(self, answer: Answer) -> None:
        """The user has spoken."""
        self.answer = answer
        self.user_turns += 1

    @property
    def log_prob(self) -> float:
        """Of the choices of the user's newest turn, in nats."""
        return self._log_prob * decisions.LOG_UNIT


def _units(log_prob: float) -> int:
    return round(log_prob / decisions.LOG_UNIT)


def as_typed(text: str, episode: TaskEpisode) -> str:
    """`text` with the style's misspellings.

    Only words that any text is full of (`words.toml`) are misspelt: a name, a number or a thing
    may be what matters.
    """
    rate = episode.style.typo_rate
    if not rate:
        return text
    words = text.split(" ")
    open_to_slips = [_is_common(word) for word in words]
    masked = " ".join(w if s else "{}" for w, s in zip(words, open_to_slips, strict=True))
    typed = misspelt(masked, rate, episode.wording_key, WORDING, episode.user_turns, 0).split(" ")
    return " ".join(
        slip if common else word
        for word, slip, common in zip(words, typed, open_to_slips, strict=True)
    )


def _is_common(word: str) -> bool:
    """Whether a word, its punctuation aside, is one of grammar, politeness or business."""
    core = word.strip(".,!?;:").replace("'", "").lower()
    return any(core in word_set(name) for name in ("function", "polite", "generic"))
