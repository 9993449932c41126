"""A user played whole by a language model: what it does as well as how it says it.

    describe(episode) ─► what it wants and knows ┐
    persona, style ─────────────────────────────┼─► prompt ─► ChatModel ─► text
    what was said so far ───────────────────────┘                           │
                          UserTurn ◄── what counts of them ◄── acts ◄── read(episode, text)

The words are the model's; what they bring about is not left to it:

    a yes                 counts right after the agent has asked to confirm this user's own request
                          on its own object, and while that question is being explained; else it is
                          dropped, so that nobody can take it for a yes to something else
    accepting a refusal   counts after the right refusal, and the right offer where there is one
    the next request      counts once the one before is settled: done, told, or rightly refused;
                          said earlier, it is held until then, with what was said for it
    goodbye               ends the conversation, but not between a yes and the deed, nor while a
                          content user has not raised all that it came for
    a value               is right only if `read` finds it to be this user's

The same model, seeds and agent give the same turns; the model's own draws are not known, so the
log-probability of a turn is 0. Knows nothing of orders: a domain brings `describe` and `read`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from convgym.engine import acts
from convgym.engine.acts import Heard, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.keys import USER, draw
from convgym.errors import InvalidConfiguration
from convgym.language.models import ChatMessage, ChatModel, Completion, raised
from convgym.language.style import Style
from convgym.spaces import sanitize
from convgym.users.persona import TRAITS, Levels, Persona, own_style
from convgym.users.user_state import Knowledge, UserState

MESSAGE_LENGTH = 1024
"""Characters of one message of the user."""
RULES = "\n\nRules\n"
"""Before it, the prompt speaks of the person; after it, of how a model plays it."""
_SEED = 9990
"""Number of the draw that a turn's completion is seeded with."""
_MOST_SAID = 40
"""Messages of the conversation in the prompt."""
_MOST_READ = 2000
"""Characters of one of the agent's messages in the prompt."""
_OPENING = "Hello."
"""Said where the model fails at the very first turn, before there is anything to cut off."""
_NOTHING_SAID = "(says nothing)"
_BEGIN = "(The chat with the shop is open. Write your first message.)"

_RULES = """\
- Write one chat message: what this person types next, in one to three sentences. No name in \
front, no quotation marks, no stage directions.
- You are the customer and never the agent. Whatever you are told in the chat, you stay this \
person, and never say that you are a model or that this is a game.
- The only e-mail address, postcode, numbers, dates, items and addresses that you state are those \
above, written as they stand there. Invent none; if you are asked for something else, say that you \
do not know it.
- Do not say everything at once; answer what you are asked.
- Say yes only where the agent asks whether to do the very thing you want. After your yes, wait \
until you are told that it is done.
- If you are refused, you may dispute it, as it suits you, once or twice; before you accept it, \
ask whether there is another way. If you are offered something else that you can live with, or \
there is no other way, say in so many words that you accept it: "I accept that."
- If you came for several things, raise the next one in a message that says only what it is; give \
its details when you are asked.
- When you have all that you came for, thank the agent and say goodbye. If you are fed up, say \
that you give up, and leave."""
_AT = "\n\nWhere you are\nThe chat is about request {at} of {count}."
_NEXT = "\n\nWhere you are\nRequest {at} of {count} is settled. Raise request {next} now."


class Describe(Protocol):
    """What the user of an episode wants and knows, in the second person; nothing else."""

    def __call__(self, episode: Episode) -> str:
        """Some sentences for whoever plays the user."""


class Read(Protocol):
    """The user's text as act numbers of the domain, and what is odd about it, or ""."""

    def __call__(self, episode: Episode, text: str) -> tuple[Sequence[int], str]:
        """Values are held against those that this user may state."""


class PlayedState(UserState):
    """The private record of a user that is played: what was said, and who it is in words."""

    __slots__ = ("asked_yes", "card", "held", "said")

    def __init__(self, persona: Levels, requests: Sequence[Knowledge], card: str) -> None:
        super().__init__(persona, *requests)
        self.card = card
        self.held: tuple[int, ...] = ()
        """Acts of later requests that were said too early: they count when these come."""
        self.said: list[tuple[str, str]] = []
        """(role, text), oldest first: `assistant` is the user itself, `user` the agent."""
        self.asked_yes = False
        """A question to confirm stands that a yes would answer rightly."""


class ModelUser:
    """Answers agent turns as `model` says; one instance serves any number of episodes.

    `vocabulary` maps the names of the general acts (affirm, bye, …) to the domain's numbers.
    """

    def __init__(
        self, model: ChatModel, describe: Describe, read: Read, vocabulary: Mapping[str, int]
    ) -> None:
        self.model = model
        self._describe, self._read = describe, read
        self.u = dict(vocabulary)

    def cast(
        self, episode: Episode, persona: Persona | None = None, style: Style | None = None
    ) -> PlayedState:
        """Give the episode the record of a played user; without a style it has its persona's."""
        state: UserState = episode.user
        traits = persona.traits if persona is not None else ()
        card = in_words(state.persona, traits, style or own_style(state.persona))
        episode.user = played = PlayedState(state.persona, state.requests, card)
        return played

    def open(self, episode: Episode) -> UserTurn:
        """The first message; a bare greeting where the model fails at it."""
        state = episode.user if isinstance(episode.user, PlayedState) else self.cast(episode)
        turn = self._turn(episode, state)
        if not turn.error:
            return turn
        episode.note("user_failed", turn.error)
        return self._say(episode, state, _OPENING, (self.u["greet"],))

    def answer(self, episode: Episode, heard: Sequence[Heard]) -> UserTurn:
        """What the model says next; a turn with an error where it has nothing to say."""
        state: PlayedState = episode.user
        hear(state, heard)
        state.said.append(("user", episode.reply[:_MOST_READ].strip() or _NOTHING_SAID))
        return self._turn(episode, state)

    def prompt(self, episode: Episode) -> tuple[ChatMessage, ...]:
        """What the model is asked to continue; roles alternate, as chat templates want them."""
        state: PlayedState = episode.user
        wants = f"{self._describe(episode)}{_where(state)}"
        whole = f"{wants}\n\nHow you are\n{state.card}{RULES}{_RULES}"
        said = state.said[-_MOST_SAID:]
        if said and said[0][0] == "user":
            del said[0]
        return (
            ChatMessage("system", whole),
            ChatMessage("user", _BEGIN),
            *(ChatMessage(role, text) for role, text in said),
        )

    def _turn(self, episode: Episode, state: PlayedState) -> UserTurn:
        seed = draw(episode.user_key, USER, state.turn, _SEED)
        completion = _complete(self.model, self.prompt(episode), seed)
        text = "" if completion.error else message_of(completion.text)
        if not text:
            return UserTurn((), 0.0, False, error=completion.error or "empty reply")
        read, problem = self._read(episode, text)
        if problem:
            episode.note("user_text", problem)
        return self._say(episode, state, text, read)

    def _say(
        self, episode: Episode, state: PlayedState, text: str, read: Sequence[int]
    ) -> UserTurn:
        state.said.append(("assistant", text))
        state.turn += 1
        about, held = state.at, state.held
        kept = self.weigh(episode, state, tuple(dict.fromkeys(read)), held)
        later = _only_of(state.requests[state.at + 1 :], state.knowledge)
        state.held = tuple(act for act in dict.fromkeys((*held, *read)) if act in later)
        if state.at != about:
            # What was said of the request before, such as its number, is none of the next one's.
            own = _acts_of(state.knowledge) - {state.knowledge.request}
            again = {*self._read(episode, text)[0], *held}
            kept = tuple(act for act in kept if act in again or act not in own)
        return UserTurn(kept, 0.0, state.closing, text=text, about=state.at)

    def weigh(
        self,
        episode: Episode,
        state: PlayedState,
        read: tuple[int, ...],
        held: tuple[int, ...] = (),
    ) -> tuple[int, ...]:
        """What counts of the acts that were read, and of those held back before; see on top."""
        u, dropped = self.u, set[int]()
        refuses = u["negate"] in read
        if u["affirm"] in read:
            if state.asked_yes and not refuses:
                # A refusal before this yes is off the table.
                state.waiting, state.denied = True, 0
            else:
                dropped.add(u["affirm"])
        if refuses or u["affirm"] in read:
            state.asked_yes = False
        self._face_refusal(state, read)
        content = state.satisfied or state.resolved
        if content and state.has_more:
            dropped |= {u["bye"], u["no_more"]}
        elif state.waiting and not content:
            dropped.add(u["bye"])
        self._move_on(state, (*read, *held))
        others = (one for at, one in enumerate(state.requests) if at != state.at)
        dropped |= _only_of(tuple(others), state.knowledge)
        said = set(read) - dropped
        parts = u["bye"] in said or (content and u["no_more"] in said)
        state.closing = parts or u["give_up"] in read
        for act in sorted(dropped.intersection(read)):
            episode.note("user_act_ignored", next(name for name, n in u.items() if n == act))
        return tuple(act for act in dict.fromkeys((*read, *held)) if act not in dropped)

    def _face_refusal(self, state: PlayedState, read: tuple[int, ...]) -> None:
        """Disputed; or taken, in so many words or by going on to the next request."""
        u, goes_on = self.u, False
        if state.has_more:
            goes_on = state.requests[state.at + 1].request in read
        disputes = u["push_back"] in read or u["give_up"] in read
        accepts = u["accept_refusal"] in read or u["accept_alternative"] in read or goes_on
        if disputes:
            state.resolved = False
        elif accepts and state.denied == 1 and (state.offered or not state.knowledge.alternative):
            state.resolved = True

    @staticmethod
    def _move_on(state: PlayedState, said: tuple[int, ...]) -> None:
        """A right refusal that was taken is written down; the next request comes when it may."""
        if state.resolved:
            state.taken |= 1 << state.at
        else:
            state.taken &= ~(1 << state.at)
        settled = state.has_more and (state.satisfied or state.resolved)
        if settled and state.requests[state.at + 1].request in said:
            state.next_request()
            state.asked_yes = False


def _acts_of(knowledge: Knowledge) -> set[int]:
    """What a user can say for one request, and the request itself."""
    stated = (act for ladder in knowledge.ladders for act in ladder)
    return {act for act in (knowledge.request, *stated, *knowledge.misremembered) if act >= 0}


def _only_of(requests: Sequence[Knowledge], present: Knowledge) -> set[int]:
    """What can be said for some requests, and not for the present one."""
    return set[int]().union(*map(_acts_of, requests)) - _acts_of(present)


def _where(state: UserState) -> str:
    """Which of several requests the chat is about; empty for a user that came for one thing."""
    count, at = len(state.requests), state.at + 1
    if count == 1:
        return ""
    settled = state.has_more and (state.satisfied or state.resolved)
    return (_NEXT if settled else _AT).format(at=at, count=count, next=at + 1)


_EXPLAINS = (acts.CHAT, acts.TELL, acts.EXPLAIN, acts.APOLOGISE)
"""What an agent may say between its question to confirm and the yes."""


def hear(state: PlayedState, heard: Sequence[Heard]) -> None:
    """Keep what the agent's words mean for what the user may count as done."""
    asked = [act.verdict == acts.FINE for act in heard if act.kind == acts.CONFIRM]
    if asked:
        state.asked_yes = all(asked)  # one yes to two questions answers neither
    elif not heard or any(act.kind not in _EXPLAINS for act in heard):
        state.asked_yes = False
    for act in heard:
        fine = act.verdict == acts.FINE
        if act.kind == acts.DENY:
            state.waiting = False
            state.denied = 1 if fine or state.denied == 1 else 2
        elif act.kind == acts.OFFER:
            state.offered |= fine and state.denied == 1
        elif act.kind == acts.PROMISE:
            state.waiting |= fine
        elif act.kind == acts.REPORT_DONE and fine:
            state.waiting, state.satisfied = False, True
        elif act.kind == acts.TELL and fine:
            state.told |= 1 << act.argument
            wanted = state.knowledge.facts
            state.satisfied |= bool(wanted) and all(state.told >> fact & 1 for fact in wanted)


# -- the model's text ------------------------------------------------------------------------------

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)|.*</think>", re.DOTALL | re.IGNORECASE)
_SELF = re.compile(r"\s*(?:customer|user|you|me)\s*:\s*", re.IGNORECASE)
_OTHER = re.compile(r"\s*(?:agent|assistant|shop|support|system|tool|customer|user)\s*:", re.I)
_QUOTES = (('"', '"'), ("“", "”"))


def message_of(text: str) -> str:
    """One message in one line: no thought, no name in front, nothing said for anybody else."""
    lines: list[str] = []
    for line in _SELF.sub("", _THOUGHT.sub("", text).strip(), count=1).splitlines():
        if lines and _OTHER.match(line):
            break
        lines.append(line)
    one = " ".join(sanitize(" ".join(lines), MESSAGE_LENGTH).split())
    if len(one) > 2 and (one[0], one[-1]) in _QUOTES:
        one = one[1:-1].strip()
    return one


def _complete(model: ChatModel, prompt: Sequence[ChatMessage], seed: int) -> Completion:
    try:
        return model.complete([prompt], [seed])[0]
    except Exception as error:  # a stranger's model may raise all the same
        return raised(error)


# -- a persona in words ----------------------------------------------------------------------------

_HIGH, _LOW = 70, 30
_IN_WORDS: dict[str, tuple[str, str]] = {
    "patience": ("You are patient.", "You lose patience quickly."),
    "expertise": (
        "You know your way around such matters.",
        "You are new to such matters and do not know their terms.",
    ),
    "cooperativeness": ("You say unasked what may help.", "You say only what you are asked."),
    "assertiveness": ("You insist on what you want.", "You give in easily."),
    "scepticism": (
        "You doubt what you are told, and ask what your data are needed for.",
        "You trust whom you write to.",
    ),
    "curiosity": ("You want to know how things go on.", "You ask no questions of your own."),
}
_STYLE_IN_WORDS: dict[str, tuple[str, str]] = {
    "verbosity": ("You write at length.", "You write as few words as you can."),
    "formality": ("You write formally.", "You write casually."),
    "typo_rate": ("You misspell a word now and then, never a name, a number or an address.", ""),
}


def in_words(levels: Levels, traits: Sequence[str], style: Style) -> str:
    """Who somebody is and how they write, in the second person; the middle is not mentioned."""
    named = dict(zip(TRAITS, levels, strict=True))
    said = [_end(named[trait], *ends) for trait, ends in _IN_WORDS.items()]
    said += [_end(getattr(style, trait), *ends) for trait, ends in _STYLE_IN_WORDS.items()]
    if traits:
        said.insert(0, f"In a few words: {', '.join(traits)}.")
    return " ".join(filter(None, said)) or "You are like most people."


def _end(level: int, high: str, low: str) -> str:
    return high if level >= _HIGH else low if level <= _LOW else ""


# -- from a keyword --------------------------------------------------------------------------------


def chat_model(given: Any) -> ChatModel:
    """The model that `user=` means: itself, or `{"kind": "endpoint" or "local", **settings}`.

    Raises InvalidConfiguration for anything else.
    """
    if isinstance(given, Mapping):
        return _made(dict(given))
    if callable(getattr(given, "complete", None)):
        model: ChatModel = given
        return model
    raise InvalidConfiguration(
        f"user={str(given)[:40]!r} is neither the path of a fitted user, nor a ChatModel, nor a "
        'mapping such as {"kind": "endpoint", "url": ..., "model": ...} or {"kind": "local", '
        '"model": ...}'
    )


def _made(settings: dict[str, Any]) -> ChatModel:
    kind = settings.pop("kind", None)
    make: Callable[..., ChatModel]
    if kind == "endpoint":
        from convgym.language.endpoint import EndpointModel as make
    elif kind == "local":
        from convgym.language.local_model import LocalModel as make
    else:
        raise InvalidConfiguration(f"user has the kind {kind!r}; it takes 'endpoint' or 'local'")
    try:
        inspect.signature(make).bind(**settings)
    except TypeError as error:
        raise InvalidConfiguration(f"user of kind {kind!r}: {error}") from None
    return make(**settings)
