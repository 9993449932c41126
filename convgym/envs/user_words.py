"""The words of the running episode's user: voice, style, and where wanted a writer's.

    turn ─► source: template, retrieval ─► Voice.say
                    writer ─► WriteRequest ─► Written ─► keeps act and values? ─► said
                                                         no ─► the draft, source "fallback"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from convgym.engine.keys import WORDING, draw
from convgym.errors import InvalidConfiguration
from convgym.language.faithfulness import keeps
from convgym.language.harvested_words import HarvestedWords
from convgym.language.style import Style
from convgym.language.tagging import ActTagger
from convgym.language.tool_calls import parse_reply
from convgym.language.voice import RETRIEVAL, TEMPLATE, WRITER, Spoken, Voice
from convgym.language.writing import WriteRequest, Written, write_all
from convgym.spaces import sanitize
from convgym.users.persona import Levels, Persona, own_style, persona_of_levels

MESSAGE_LENGTH = 1024
"""Characters of a written turn; more is no turn of a customer."""
FALLBACK = "fallback"
_SEED = 910
"""Number of the draw that a turn's writer is seeded with."""
_MOST_HISTORY = 12


def _heard(said: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """What the customer has heard: of the agent's replies the speech alone."""
    heard = [(who, parse_reply(text).speech if who == "Agent" else text) for who, text in said]
    return [(who, text) for who, text in heard if text]


class UserWords:
    """Words for the turns of one episode at a time.

    Raises InvalidConfiguration where `realism` asks for a writer and there is none.
    """

    def __init__(
        self,
        voice: Voice,
        *,
        realism: int,
        diversity: int,
        writer: Any,
        tagger: Callable[[], ActTagger],
        harvested: HarvestedWords | None = None,
    ) -> None:
        if realism <= 50 and writer is not None:
            raise InvalidConfiguration(
                f"writer= came with realism={realism / 100}, at which it has no turn to word; set "
                "realism above 0.5"
            )
        if realism > 50 and writer is None:
            raise InvalidConfiguration(
                f"realism={realism / 100} is above 0.5 and needs writer=, a callable that words "
                "a turn; or stay at 0.5 or below"
            )
        own = None if harvested is None else harvested.voice(voice)
        self.voice = replace(voice, realism=realism, harvested=own)
        self.has_writer = realism > 50
        """Whether some turns are a writer's."""
        self.diversity, self._writer, self._tagger = diversity, writer, tagger
        self._key, self._levels = 0, Persona().levels
        self._its_style: Style | None = None
        self._persona: Persona | Levels = Persona()

    def begin(
        self, persona: Persona | Levels, levels: Levels, style: Style | None, key: int
    ) -> None:
        """A new episode; without a style the persona writes as it does."""
        self._key, self._persona, self._levels = key, persona, levels
        if style is not None:
            style = replace(style, diversity=min(style.diversity, self.diversity))
        self._its_style = style

    @property
    def _style(self) -> Style:
        """How this episode's user writes; made only where somebody reads it."""
        if self._its_style is None:
            self._its_style = own_style(self._levels, self.diversity)
        return self._its_style

    def say(self, index: int, spoken: Sequence[Spoken]) -> str:
        """The `index`-th turn, without a writer."""
        return self.voice.say(spoken, self._style, self._key, index, self.source(index))

    def source(self, index: int) -> str:
        """Where the words of the `index`-th turn come from without a writer."""
        if not self.voice.realism:
            return TEMPLATE
        source = self.voice.source(self._key, index)
        return RETRIEVAL if source == WRITER else source

    def request(
        self, index: int, spoken: Sequence[Spoken], said: Sequence[tuple[str, str]]
    ) -> WriteRequest | None:
        """What a writer is asked for this turn; None where the turn is not a writer's."""
        if not self.has_writer or self.voice.source(self._key, index) != WRITER:
            return None
        return WriteRequest(
            spoken=tuple(spoken),
            draft=self.voice.say(spoken, self._style, self._key, index, RETRIEVAL),
            style=self._style,
            persona=self._described(),
            history=tuple(_heard(said)[-_MOST_HISTORY:]),
            seed=draw(self._key, WORDING, index, _SEED),
        )

    def _described(self) -> dict[str, Any]:
        persona = self._persona
        if not isinstance(persona, Persona):
            persona = persona_of_levels(persona, "drawn")
        return persona.to_dict()

    def write(self, requests: Sequence[WriteRequest]) -> list[Written]:
        """The writer's answers, one for each request."""
        return write_all(self._writer, requests)

    def checked(self, request: WriteRequest, written: Written) -> tuple[str, str]:
        """(what is said, its source): the writer's words if they keep act and values."""
        if written.error:
            return request.draft, FALLBACK
        text = sanitize(written.text, MESSAGE_LENGTH).strip()
        if text != request.draft and keeps(text, request, self._tagger()):
            return request.draft, FALLBACK
        return text, WRITER
