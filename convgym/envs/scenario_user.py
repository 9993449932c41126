"""The user of a scenario: its author's texts, said when what the agent says brings them out.

    message ─► noise? silence, a heap of words, the same again, an echo    complains
            ─► idle?  a greeting, "one moment", goodbye                    repeats, waits, protests
            ─► what it states   meets open points: request, question, objection
            ─► what it asks     brings out the response that answers it best
            ─► neither          the open point once more, until patience is lost

    nothing is open, all that had to come out is out  ─►  thanks and leaves content

A response is an *answer* (inform), which waits to be asked for, or the user's own business
(question, objection, request), which comes by itself, in the listed order, once nothing is open. An
open point is met by a statement about it that holds something new. Where the record states
criteria, the user is not content before they hold, and comes back to its request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from convgym.envs.matching import Topic, content_of, is_yes_or_no
from convgym.envs.reply import Reply
from convgym.envs.scenario_listener import OWN, Memory, ScenarioListener
from convgym.envs.scenario_records import INFORM, THANKS, ScenarioRecord
from convgym.envs.task_episode import Answer, TaskEpisode
from convgym.language.phrases import PhraseBank

FORBIDDEN = "must_not_mention"
"""Name of the violation."""


@dataclass
class _Turn:
    """The user's turn as it grows."""

    texts: list[str] = field(default_factory=list)
    acts: list[tuple[str, str]] = field(default_factory=list)
    leaves: bool = False

    def add(self, act: str, text: str, value: str = "") -> None:
        self.acts.append((act, value))
        self.texts.append(text)

    def answer(self) -> Answer:
        parts = [t if t[-1:] in ".!?…" else f"{t}." for t in self.texts[:-1]] + self.texts[-1:]
        return Answer(" ".join(parts), tuple(self.acts), self.leaves)


@cache
def _stock(bank: PhraseBank) -> frozenset[str]:
    """What all stock phrases are about: an agent that sends them back says nothing new.

    All, not those that were said: the wording must not decide anything.
    """
    texts = [text.replace("{text}", "") for act in bank for text in bank.variants(act)]
    return frozenset(word for text in texts for word in content_of(text))


class ScenarioUser(ScenarioListener):
    """Plays the user of one scenario; holds no episode's state and serves any number of them."""

    def __init__(self, record: ScenarioRecord, bank: PhraseBank) -> None:
        super().__init__(record)
        self.bank = bank
        self._stock = _stock(bank)

    # -- turns -------------------------------------------------------------------------------------

    def open(self, episode: TaskEpisode) -> Answer:
        """The first response."""
        episode.notes["memory"] = memory = Memory(words=self._stock)
        turn = _Turn()
        self._say(episode, memory, turn, 0)
        return turn.answer()

    def answer(self, episode: TaskEpisode, reply: Reply) -> Answer:
        """React to a message."""
        memory: Memory = episode.notes["memory"]
        turn, before = _Turn(), episode.bother
        episode.bother += reply.long
        self._watch(episode, memory, reply)
        if not self._complains(episode, memory, turn, reply):
            met = self.meet(memory, reply)
            self.settle(memory, reply)
            if reply.empty:
                self._pass_time(episode, memory, turn, reply)
            else:
                self._react(episode, memory, turn, reply, met)
        if episode.bother > before and episode.bother >= 2 and not turn.leaves:
            if episode.decide("show_frustration"):
                turn.add("frustrated", episode.phrase(self.bank, "frustrated"))
        return turn.answer()

    def _watch(self, episode: TaskEpisode, memory: Memory, reply: Reply) -> None:
        """What must not be said counts in whatever message it stands."""
        ids = [self.responses[place].id for place in memory.said]
        if self.record.criteria.broken(reply, ids) and FORBIDDEN not in episode.violations:
            episode.violations.append(FORBIDDEN)
            episode.note("violation", FORBIDDEN)

    def _complains(
        self, episode: TaskEpisode, memory: Memory, turn: _Turn, reply: Reply
    ) -> bool:
        """Whether the message is nothing that one could answer; notes it where it can be read.

        What brings a criterion forward is no mere repetition: it may have come too early before.
        """
        if reply.silent:
            fault = "nudge"
        elif reply.salad or self.rambles(memory, reply):
            fault = "confused"
        elif self.note(memory, reply):
            return False
        elif reply.repeats(episode.earlier):
            fault = "repeated"
        elif self.echoes(memory, reply):
            fault = "echoed"
        else:
            return False
        episode.bother += 1
        turn.add(fault, episode.phrase(self.bank, fault))
        return True

    def _pass_time(
        self, episode: TaskEpisode, memory: Memory, turn: _Turn, reply: Reply
    ) -> None:
        """Nothing but politeness: greetings, "anything else?", "one moment", goodbye."""
        if self.is_content(memory):
            self._part(episode, memory, turn)
        elif (reply.invites and not self.owed(memory)) or not self.has_asked(memory):
            self._accept(episode, memory, turn, self.open_to(memory))
        elif reply.parts:
            self._be_left(episode, memory, turn)
        else:
            memory.idle += 1
            episode.bother += memory.idle > 1
            if reply.invites or memory.idle > 1:
                self._insist(episode, memory, turn)
            elif episode.turn == 1:
                turn.add("greet", episode.phrase(self.bank, "greet"))
                self._insist(episode, memory, turn)
            else:
                turn.add("acknowledge", episode.phrase(self.bank, "acknowledge"))

    def _react(
        self, episode: TaskEpisode, memory: Memory, turn: _Turn, reply: Reply, met: bool
    ) -> None:
        """A message with content: what it brings out, and what it leaves open."""
        open_to = self.open_to(memory)
        asking = any(heard.question and not heard.idle for heard in reply.sentences)
        for number, place in enumerate(self.brought_out(memory, reply, open_to)[:2]):
            if number == 0 or episode.decide("answer_too"):
                self._say(episode, memory, turn, place)
        if turn.texts:
            memory.idle = 0
        elif self.is_content(memory):
            self._part(episode, memory, turn)
        elif asking and not (met and not self.owed(memory) and self.has_business(open_to)):
            self._cannot_answer(episode, memory, turn, reply, open_to)
        elif self.owed(memory) and not met:
            episode.bother += 1
            if reply.parts:
                self._be_left(episode, memory, turn)
            elif Topic(self.matter_of(memory)).touched(reply.content):
                self._insist(episode, memory, turn)
            else:
                turn.add("ask_back", episode.phrase(self.bank, "ask_back"))
        elif self.owed(memory):
            self._insist(episode, memory, turn)
        elif self.has_business(open_to):
            self._go_on(episode, memory, turn, open_to)
        elif reply.invites:
            self._accept(episode, memory, turn, open_to)
        elif all(place in memory.said for place in self.required):
            episode.bother += 1  # something that it expects has not been said
            self._insist(episode, memory, turn)
        elif episode.decide("volunteer"):
            self._go_on(episode, memory, turn, open_to)
        else:
            turn.add("acknowledge", episode.phrase(self.bank, "acknowledge"))

    def _cannot_answer(
        self,
        episode: TaskEpisode,
        memory: Memory,
        turn: _Turn,
        reply: Reply,
        open_to: Sequence[int],
    ) -> None:
        """Asked for what no unsaid response answers: a yes, the same once more, "I don't know"."""
        asked = [heard for heard in reply.sentences if heard.question]
        words = frozenset(w for heard in asked for w in heard.content())
        checks = words and words <= memory.words and any(map(is_yes_or_no, asked))
        if reply.offers or checks:
            memory.idle += 1
            episode.bother += memory.idle > 1
            turn.add("affirm", episode.phrase(self.bank, "affirm"))
            return
        if reply.invites and not self.owed_beside_request(memory):
            self._accept(episode, memory, turn, open_to)
            return
        told = self.told_before(memory, reply)
        if told:
            episode.bother += 1
            self._repeat(episode, memory, turn, told[0], "insist")
            return
        answers = [p for p in open_to if self.responses[p].act == INFORM]
        about = Topic(self.matter_of(memory)).touched(words)
        if answers and about and episode.decide("volunteer"):
            self._say(episode, memory, turn, answers[0])
            return
        episode.bother += 1
        turn.add("dont_know", episode.phrase(self.bank, "dont_know"))

    # -- what is said ------------------------------------------------------------------------------

    def _say(self, episode: TaskEpisode, memory: Memory, turn: _Turn, place: int) -> None:
        response = self.responses[place]
        turn.add(response.act, episode.word(response.texts, 0), response.id)
        memory.said.append(place)
        memory.open.append(place)
        memory.words |= self.words[place]

    def _go_on(
        self, episode: TaskEpisode, memory: Memory, turn: _Turn, open_to: Sequence[int]
    ) -> None:
        """The next response, its own business before answers that nobody has asked for."""
        free = [place for place in open_to if not self.responses[place].when]
        own = [place for place in free if self.responses[place].act in OWN]
        if own and not self.owed(memory):
            self._say(episode, memory, turn, own[0])
        elif free:
            self._say(episode, memory, turn, free[0])
        else:
            self._insist(episode, memory, turn)

    def _accept(
        self, episode: TaskEpisode, memory: Memory, turn: _Turn, open_to: Sequence[int]
    ) -> None:
        """An invitation to go on: the first is taken, later ones only by who likes to talk."""
        memory.invited += 1
        if memory.invited == 1 or episode.decide("volunteer"):
            self._go_on(episode, memory, turn, open_to)
        else:
            episode.bother += 1
            self._insist(episode, memory, turn)

    def _insist(
        self, episode: TaskEpisode, memory: Memory, turn: _Turn, act: str = "insist"
    ) -> None:
        """An open point once more; where there is none, what is still to be said."""
        mine = [place for place in memory.open if self.responses[place].act in OWN]
        more = [place for place in self.open_to(memory) if not self.responses[place].when]
        if more and not mine:
            self._say(episode, memory, turn, more[0])
            return
        self._repeat(episode, memory, turn, mine[-1] if mine else 0, act)

    def _repeat(
        self, episode: TaskEpisode, memory: Memory, turn: _Turn, place: int, act: str
    ) -> None:
        """What it has said before, in the author's other words where there are any."""
        response = self.responses[place]
        memory.repeats += 1
        text = episode.word(response.texts, memory.repeats)
        if len(response.texts) == 1 or act != "insist":
            text = episode.phrase(self.bank, act).replace("{text}", text)
        turn.add(act, text, response.id)

    def _be_left(self, episode: TaskEpisode, memory: Memory, turn: _Turn) -> None:
        """The agent says goodbye before the user has what it came for."""
        episode.bother += 2
        if episode.decide("protest"):
            self._insist(episode, memory, turn, "protest")
        else:
            turn.add("bye", episode.phrase(self.bank, "leave"))
            turn.leaves = True

    def _part(self, episode: TaskEpisode, memory: Memory, turn: _Turn) -> None:
        """Content: the author's parting words, or some of its own."""
        memory.content = turn.leaves = True
        places = range(len(self.responses))
        last = [p for p in places if self.responses[p].act == THANKS and p not in memory.said]
        if last:
            self._say(episode, memory, turn, last[0])
            return
        thanks = episode.decide("thank")
        if thanks:
            turn.add("thank", episode.phrase(self.bank, "thank"))
        if episode.decide("bye") or not thanks:
            turn.add("bye", episode.phrase(self.bank, "bye"))
