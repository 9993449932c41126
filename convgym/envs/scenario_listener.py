"""What a scenario's user understands of a message, and where that leaves the conversation.

    message ─► echo? rambling?
            ─► criteria and topics noted
            ─► open points met: a statement about them that holds something new
            ─► responses brought out: by the author's phrases, by a question, by provocation

Reads and keeps account; what is said to it is `convgym.envs.scenario_user`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from convgym.envs.matching import Matcher, Topic, asked_by, content_of, is_generic, told_by
from convgym.envs.reply import Reply, plain, sentences_of, stem
from convgym.envs.scenario_records import (
    GREET,
    INFORM,
    OBJECTION,
    QUESTION,
    REQUEST,
    THANKS,
    Response,
    ScenarioRecord,
)

OWN = (REQUEST, QUESTION, OBJECTION)
"""What the user brings up by itself, and wants met."""
ENOUGH_HITS = 2
"""Words about the matter in a statement that meets an open point; 1 where the point itself has
but one that tells what it is about."""
NEW_WORDS = {REQUEST: 1, QUESTION: 1, OBJECTION: 1, INFORM: 1, GREET: 0, THANKS: 0}
"""Words of such a statement that the user has not said itself."""
PROVOKED = {OBJECTION: 1, INFORM: 2}
"""Its own words, new in a statement, that bring out a response that nobody has asked for: an
objection, or an answer that says no to something, such as "I don't get that mail either"."""
MANY = 6
"""Sentences from which on a third of them has to be about the matter."""
CONCRETE = frozenset(("time", "duration", "count", "place", "code", "mail"))


@dataclass
class Memory:
    """What a scenario's user keeps in mind during an episode."""

    said: list[int] = field(default_factory=list)
    """Responses that are out, in their order."""
    open: list[int] = field(default_factory=list)
    """Those of them that the agent has not met."""
    heard: list[str] = field(default_factory=list)
    """Agent topics that have come up."""
    done: int = 0
    """Bit per wanted criterion that holds."""
    words: frozenset[str] = frozenset()
    """Stems that the user has said, and those of its stock phrases."""
    repeats: int = 0
    """Times an open point was brought up again."""
    idle: int = 0
    """Messages of pastime in a row."""
    invited: int = 0
    """Times it was asked for nothing in particular: "anything else?"."""
    content: bool = False
    """The user has what it came for."""


def _mostly(words: frozenset[str], known: frozenset[str]) -> bool:
    """Four fifths of some words, and at least one, are known."""
    own = len(words & known)
    return bool(own) and own * 5 >= len(words) * 4


def _provocation(response: Response) -> int:
    """Words that provoke a response; 0: nothing does."""
    if response.act == INFORM:
        said = sentences_of(response.texts[0])
        return PROVOKED[INFORM] * any(s.has("deny") for s in said)
    return PROVOKED.get(response.act, 0)


class ScenarioListener:
    """Reads replies for one scenario; holds no episode's state."""

    def __init__(self, record: ScenarioRecord) -> None:
        self.record = record
        self.responses = record.responses
        texts = [response.texts[0] for response in self.responses]
        self._matcher = Matcher(texts)
        self._asked = tuple(map(asked_by, texts))
        self.words = tuple(
            frozenset(w for text in response.texts for w in content_of(text))
            for response in self.responses
        )
        self._provoked_by = tuple(map(_provocation, self.responses))
        stated = [p for c in record.criteria.wanted for p in c.phrases]
        self._matter = tuple(
            dict.fromkeys(
                word
                for text in (record.topic, record.context, record.policy,
                             record.expected_resolution, *stated)
                for word in content_of(text)
            )
        )
        """Words that an answer may be made of, beside the user's own."""
        self._agent_topics = tuple(
            dict.fromkeys(topic for response in self.responses for topic in response.topics)
        )
        self.required = tuple(
            place for place, one in enumerate(self.responses) if self._is_required(place, one)
        )
        """Places of the responses without which the user is not content."""

    def _is_required(self, place: int, response: Response) -> bool:
        if place == 0:
            return True
        if response.optional or response.act in (THANKS, GREET):
            return False
        if response.act == OBJECTION and response.when:
            return False  # there is nothing to object to where nobody brings it up
        return response.act in OWN or not self.record.criteria.wanted

    @property
    def shortest(self) -> int:
        """Agent turns that somebody needs who knows the scenario: one for each thing to come out,
        and one to meet the last."""
        ids = self.record.ids
        needed = {self.responses[place].id for place in self.required} | {ids[0]}
        needed |= {one for criterion in self.record.criteria.wanted for one in criterion.after}
        before = 0
        while len(needed) > before:
            before = len(needed)
            needed |= {n for one in self.responses if one.id in needed for n in one.needs}
        return len(needed)

    # -- the message -------------------------------------------------------------------------------

    def rambles(self, memory: Memory, reply: Reply) -> bool:
        """Many sentences, of which fewer than one in three is about the matter."""
        matter = Topic(self.matter_of(memory))
        told = [words for heard in reply.sentences if (words := heard.content())]
        return len(told) >= MANY and 3 * sum(map(bool, map(matter.touched, told))) < len(told)

    def echoes(self, memory: Memory, reply: Reply) -> bool:
        """The user's own words, stated back to it, and nothing else."""
        asking = any(heard.question for heard in reply.sentences)
        return not asking and _mostly(reply.content, memory.words)

    def note(self, memory: Memory, reply: Reply) -> bool:
        """Note criteria and agent topics; whether a criterion holds that did not before."""
        ids = [self.responses[place].id for place in memory.said]
        before, memory.done = memory.done, self.record.criteria.done(reply, ids, memory.done)
        for topic in self._agent_topics:
            if topic not in memory.heard and (reply.says(topic) or reply.asks(topic)):
                memory.heard.append(topic)
        return memory.done != before

    def brought_out(self, memory: Memory, reply: Reply, open_to: Sequence[int]) -> list[int]:
        """What the message brings out: by the author's phrases, by a question, by provocation."""
        named = [
            place
            for place in open_to
            if self.responses[place].when
            and reply.mentions(*self.responses[place].when)
            and not reply.denies(*self.responses[place].when)
        ]
        free = [place for place in open_to if not self.responses[place].when]
        answers = [place for place in free if self.responses[place].act not in OWN]
        asked = self._matcher.best(reply, answers)
        stated = self._stated(memory, reply)
        new = stated - memory.words
        provoked = [
            place
            for place in free
            if self._provoked_by[place]
            and len(self._matcher.topics[place].touched(new)) >= self._provoked_by[place]
        ]
        return list(dict.fromkeys([*named, *asked, *provoked]))

    def told_before(self, memory: Memory, reply: Reply) -> list[int]:
        """Answers that are out already and that the message asks for again."""
        out = [place for place in memory.said if self.responses[place].act == INFORM]
        named = [
            place
            for place in out
            if self.responses[place].when and reply.asks(*self.responses[place].when)
        ]
        asked = self._matcher.best(reply, [p for p in out if not self.responses[p].when])
        return [*named, *asked]

    @staticmethod
    def _stated(memory: Memory, reply: Reply) -> frozenset[str]:
        """Content of the sentences that neither ask for anything nor feel sorry for the user.

        Echoes of the user count only where the rest tells something concrete: a time, a number.
        """
        stated: set[str] = set()
        echoed: set[str] = set()
        rest: list[str] = []
        for heard in reply.sentences:
            words = frozenset(heard.content())
            if heard.question or heard.sentence.has("sympathy"):
                continue
            if _mostly(words, memory.words):
                echoed |= words
            else:
                stated |= words
                rest += heard.sentence.tokens
        return frozenset(stated | echoed if told_by(" ".join(rest)) & CONCRETE else stated)

    # -- what it meets -----------------------------------------------------------------------------

    def meet(self, memory: Memory, reply: Reply) -> bool:
        """Strike out the open points that the message meets; whether there was one."""
        stated = self._stated(memory, reply)
        new = sum(word not in memory.words and not is_generic(word) for word in stated)
        met = [place for place in memory.open if self._meets(memory, reply, place, stated, new)]
        memory.open = [place for place in memory.open if place not in met]
        return bool(met)

    def _meets(
        self, memory: Memory, reply: Reply, place: int, stated: frozenset[str], new: int
    ) -> bool:
        response = self.responses[place]
        if not stated or new < NEW_WORDS[response.act]:
            return response.act == GREET
        since = place if response.act in (REQUEST, QUESTION) else 0
        about = Topic([*sorted(self.words[place]), *self.matter_of(memory, since)])
        touched = about.touched(stated)
        number = any(word.isdigit() for word in stated - memory.words)
        hits = len(touched) + self._fits(reply, place) + bool(touched and number)
        telling = sum(not (is_generic(w) or w.isdigit()) for w in self.words[place])
        return hits >= min(ENOUGH_HITS if response.act in OWN else 1, max(1, telling))

    def settle(self, memory: Memory, reply: Reply) -> None:
        """A question that comes up next need not be asked where the message has answered it."""
        if self.record.criteria.wanted:
            return  # the author has said what must be heard
        for place in self.open_to(memory):
            response = self.responses[place]
            if self.owed(memory) or response.act != QUESTION or response.when:
                continue
            stated = self._stated(memory, reply)
            own = Topic(sorted(self.words[place]))
            telling = sum(not (is_generic(w) or w.isdigit()) for w in self.words[place])
            if len(own.touched(stated)) >= max(1, min(ENOUGH_HITS, telling)):
                memory.said.append(place)

    def matter_of(self, memory: Memory, place: int = 0) -> list[str]:
        """Words about the matter: the record's, and what the user has said since `place`."""
        since = memory.said[memory.said.index(place) :] if place in memory.said else memory.said
        return [*self._matter, *(word for one in since for word in sorted(self.words[one]))]

    def _fits(self, reply: Reply, place: int) -> int:
        """1 where the message gives the sort of answer that was asked for: a yes, a time, …"""
        asked = self._asked[place]
        first = stem(reply.words[0]) if reply.words else ""
        yes = "yesno" in asked and first in ("yes", "no", "yeah", "sure", "certainli", "absoluteli")
        stated = " ".join(
            " ".join(heard.sentence.tokens) for heard in reply.sentences if not heard.question
        )
        return int(yes or bool((asked - {"yesno"}) & told_by(plain(stated))))

    # -- where the conversation stands -------------------------------------------------------------

    def open_to(self, memory: Memory) -> list[int]:
        """Unsaid responses whose time may come, in the listed order; thanks are for the end."""
        said = {self.responses[place].id for place in memory.said}
        return [
            place
            for place, one in enumerate(self.responses)
            if place not in memory.said
            and one.act != THANKS
            and said.issuperset(one.needs)
            and all(topic in memory.heard for topic in one.topics)
        ]

    def owed(self, memory: Memory) -> bool:
        """Whether a point of the user's own is open."""
        return any(self.responses[place].act in OWN for place in memory.open)

    def owed_beside_request(self, memory: Memory) -> bool:
        """The same, the request left aside: who asks "tell me more" works on that."""
        return any(self.responses[p].act in OWN for p in memory.open if p)

    def has_asked(self, memory: Memory) -> bool:
        """Whether anything of the user's own is out, and not a mere greeting."""
        return any(self.responses[place].act in OWN for place in memory.said)

    def has_business(self, open_to: Sequence[int]) -> bool:
        """Whether one of these responses is the user's own and waits for nothing."""
        return any(
            self.responses[place].act in OWN and not self.responses[place].when
            for place in open_to
        )

    def is_content(self, memory: Memory) -> bool:
        """Everything that had to come out is out, nothing is open, and the criteria hold."""
        out = all(place in memory.said for place in self.required)
        return out and not memory.open and self.record.criteria.all_done(memory.done)

    def progress(self, memory: Memory) -> float:
        """The share of what has to be said, met and stated that is; the opening counts as met
        only."""
        wanted = self.record.criteria.wanted
        out = sum(place in memory.said for place in self.required if place)
        met = sum(place in memory.said and place not in memory.open for place in self.required)
        total = 2 * len(self.required) - 1 + len(wanted)
        return (out + met + memory.done.bit_count()) / total
