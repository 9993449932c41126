"""Is this log good enough to learn from, and by which algorithm?

    conversations ─► returns, outliers      how good, and is a number wrong
                 ├─► actions                how many different things the agent did
                 ├─► duplicates, leakage    how much of it is the same again
                 ├─► null behaviour         how often the agent did nothing
                 └─► suggestion             the first row below that holds

    return       the conversation's reward, else the sum of its turns' rewards, else none
    outlier      further from the median than 3.5 · 1.4826 times the median distance of the returns
                 on its side of it (Iglewicz and Hoaglin, 1993, on each side by itself, because
                 returns are skewed, and without those that equal the median)
    action       an assistant turn's acts, else the tools it calls, else none
    effective    exp(entropy): so many equally frequent actions would be as varied
    null turn    of the assistant: without a word or a call, or its turn before once more
    null         a conversation in which the assistant says nothing, or in two or more turns only
                 one thing
    duplicate    roles, texts and calls of an earlier conversation; a prefix is all of the
                 beginning of a longer one

    if                                      suggests      because
    the assistant never speaks              none          there is no action to learn
    no returns, or all are equal            bc            nothing tells good replies from bad
    fewer than 100 returns                  filtered_bc   values learnt from so few follow the noise
    half of the conversations, or more,     filtered_bc   no later turn: the return is the value
      have one assistant turn
    mean return in the top tenth            bc            near-expert data: imitation is as good
                                                          (Fu 2020, arXiv:2004.07219; Kumar 2022,
                                                          arXiv:2204.05618)
    actions known, fewer than 1.5           bc            one action alone leaves nothing to choose
      effective ones
    actions known, more                     cql           pessimistic about actions that are rare
                                                          here (Kumar 2020, arXiv:2006.04779)
    actions unknown: free text              iql           never asks the value of a reply that
                                                          nobody gave (Kostrikov 2021,
                                                          arXiv:2110.06169)

"Known" is where most assistant turns have one. CQL and IQL join the good ends of some
conversations to the beginnings of others, which imitation cannot; Monte-Carlo values and filtered
BC belong beside them (LMRL-Gym, arXiv:2311.18232: they win where there is nothing to join).

Memory: 16 bytes a message, and the ids, beside that of `LogStatistics`. Knows nothing of learners.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgym.conversation import Conversation, Message
from convgym.data import cues
from convgym.data.splits import prefix_digests
from convgym.data.statistics import QUANTILES, LogStatistics, StatisticsTally, Summary

NAMED = 20
"""So many conversations are named by their ids."""
FEW_RETURNS = 100
NEAR_EXPERT = 0.9
ONE_ACTION = 1.5
SILENCE = ("", "")


@dataclass(frozen=True)
class Found:
    """Conversations that something is the matter with."""

    count: int
    ids: tuple[str, ...]
    """Of the first 20."""


@dataclass(frozen=True)
class ActionCoverage:
    """What the assistant did, over all its turns."""

    turns: int
    known_share: float | None
    """Share of turns with an action; None without turns, as below."""
    distinct: int
    effective: float | None
    """exp(entropy) of the actions; None where none is known."""
    most_frequent: tuple[tuple[str, float], ...]
    """(action, share of the turns with one), at most 20."""
    distinct_texts_share: float | None
    """Different texts and calls, over turns."""


@dataclass(frozen=True)
class Leakage:
    """Conversations of another split that this log holds."""

    split: str
    conversations: int
    """Of that split."""
    duplicates: int
    prefixes: int
    """Of the others, those that begin a longer one of this log, or go on from a shorter one."""


@dataclass(frozen=True)
class Suggestion:
    """An offline algorithm, and why."""

    algorithm: str
    """"none", "bc", "filtered_bc", "cql" or "iql"."""
    reason: str


@dataclass(frozen=True)
class QualityReport:
    """The findings; see the module for each definition."""

    statistics: LogStatistics
    returns: Summary
    return_range: tuple[float, float] | None
    """Smallest and largest return; None without returns."""
    distinct_returns: int
    outliers: Found
    agent_turns: Summary
    """Assistant turns per conversation."""
    actions: ActionCoverage
    null_turns_share: float | None
    null: Found
    duplicates: Found
    prefixes: Found
    without_user: Found
    without_assistant: Found
    leakage: tuple[Leakage, ...]
    suggestion: Suggestion

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"statistics": self.statistics.to_dict()}

    def to_markdown(self) -> str:
        """A table of two columns, and the suggestion below it."""
        low, high = self.return_range or (None, None)
        actions = self.actions
        quantiles = " / ".join(map(_show, self.returns.quantiles))
        frequent = ", ".join(f"{name} {share:.0%}" for name, share in actions.most_frequent[:6])
        rows = [
            ("conversations", f"{self.statistics.total_conversations:,}"),
            ("with a return", f"{self.returns.n:,}, {self.distinct_returns:,} different"),
            ("return, mean (sd)", f"{_show(self.returns.mean)} ({_show(self.returns.sd)})"),
            ("return, 5 / 25 / 50 / 75 / 95 %", quantiles or "–"),
            ("return, smallest / largest", f"{_show(low)} / {_show(high)}"),
            ("outlying returns", _told(self.outliers)),
            ("messages, median", _show(self.statistics.turns.median)),
            ("agent turns, median", _show(self.agent_turns.median)),
            ("agent turns with a known action", _percent(actions.known_share)),
            ("different actions", f"{actions.distinct:,}, {_show(actions.effective)} effective"),
            ("most frequent actions", frequent or "–"),
            ("different texts per agent turn", _percent(actions.distinct_texts_share)),
            ("null agent turns", _percent(self.null_turns_share)),
            ("null conversations", _told(self.null)),
            ("duplicates", _told(self.duplicates)),
            ("prefixes of a longer one", _told(self.prefixes)),
            ("without a user turn", _told(self.without_user)),
            ("without an assistant turn", _told(self.without_assistant)),
            *(
                (
                    f"leakage into {leak.split}",
                    f"{leak.duplicates:,} duplicates and {leak.prefixes:,} prefixes "
                    f"of {leak.conversations:,}",
                )
                for leak in self.leakage
            ),
        ]
        lines = [f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows]
        suggested = f"Suggested: **{self.suggestion.algorithm}**. {self.suggestion.reason}"
        return "\n".join(["| finding | value |", "|---|---|", *lines, "", suggested])


def quality_report(
    conversations: Iterable[Conversation],
    splits: Mapping[str, Iterable[Conversation]] | None = None,
) -> QualityReport:
    """Reads each once. `splits`: other parts of the data, by name, that must share none with it."""
    tally = _Tally()
    for conversation in conversations:
        tally.add(conversation)
    leakage = []
    for name, others in (splits or {}).items():
        digests = _Digests()
        for conversation in others:
            digests.add(conversation)
        leakage.append(tally.digests.leakage_into(name, digests))
    return tally.result(tuple(leakage))


def outlying(values: ArrayLike) -> NDArray[np.bool_]:
    """(N,) which values are outliers of the N given; see the module."""
    data = np.asarray(values, dtype=np.float64)
    if not data.size:
        return np.zeros(0, dtype=np.bool_)
    distances = data - np.median(data)
    found = np.zeros(len(data), dtype=np.bool_)
    for side in (distances, -distances):
        if (side > 0).any():
            found |= side > 3.5 * 1.4826 * np.median(side[side > 0])
    return found


def action_of(message: Message) -> str | None:
    """The action of an assistant turn: its acts, "inform+request"; else its tools, "call find"."""
    acts = sorted(set(cues.acts_of(message)))
    if acts:
        return "+".join(acts)
    return f"call {'+'.join(sorted(message.tool_call))}" if message.tool_call else None


@dataclass
class _Digests:
    """Of conversations the digests of the whole, and of each beginning with its owner."""

    whole: array[int] = field(default_factory=lambda: array("Q"))
    beginnings: array[int] = field(default_factory=lambda: array("Q"))
    owners: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, conversation: Conversation) -> None:
        *beginnings, whole = prefix_digests(conversation)
        self.beginnings.extend(beginnings)
        self.owners.extend([len(self.whole)] * len(beginnings))
        self.whole.append(whole)

    def duplicates(self) -> NDArray[np.bool_]:
        """(N,) which conversations came before."""
        again = np.ones(len(self.whole), dtype=np.bool_)
        again[np.unique(_array(self.whole), return_index=True)[1]] = False
        return again

    def prefixes(self) -> NDArray[np.bool_]:
        """(N,) which conversations are the beginning of a longer one."""
        return np.isin(_array(self.whole), _array(self.beginnings))

    def leakage_into(self, split: str, others: _Digests) -> Leakage:
        whole = _array(others.whole)
        duplicates = np.isin(whole, _array(self.whole))
        prefixes = np.isin(whole, _array(self.beginnings))
        longer = np.isin(_array(others.beginnings), _array(self.whole))
        prefixes[_array(others.owners)[longer].astype(np.intp)] = True
        prefixes &= ~duplicates
        return Leakage(split, len(whole), int(duplicates.sum()), int(prefixes.sum()))


@dataclass
class _Tally:
    """The running counts behind a `QualityReport`."""

    statistics: StatisticsTally = field(default_factory=StatisticsTally)
    digests: _Digests = field(default_factory=_Digests)
    ids: list[str] = field(default_factory=list)
    returns: array[float] = field(default_factory=lambda: array("d"))
    """NaN where there is none."""
    agent_turns: array[int] = field(default_factory=lambda: array("L"))
    texts: array[int] = field(default_factory=lambda: array("q"))
    actions: Counter[str] = field(default_factory=Counter)
    null_turns: int = 0
    matters: dict[str, list[int]] = field(
        default_factory=lambda: {"null": [], "without_user": [], "without_assistant": []}
    )
    """Of each matter the indices of its conversations."""

    def add(self, conversation: Conversation) -> None:
        index = len(self.ids)
        self.statistics.add(conversation)
        self.digests.add(conversation)
        self.ids.append(conversation.conversation_id)
        self.returns.append(_return(conversation))
        said: list[tuple[str, str]] = []
        for message in conversation.said_by("assistant"):
            turn = (message.content.strip(), repr(message.tool_call) if message.tool_call else "")
            self.null_turns += turn == SILENCE or said[-1:] == [turn]
            said.append(turn)
            action = action_of(message)
            if action is not None:
                self.actions[action] += 1
        self.agent_turns.append(len(said))
        self.texts.extend(map(hash, said))
        things = set(said) - {SILENCE}
        if said and (not things or (len(things) == 1 and len(said) > 1)):
            self.matters["null"].append(index)
        if not said:
            self.matters["without_assistant"].append(index)
        if not any(conversation.said_by("user")):
            self.matters["without_user"].append(index)

    def result(self, leakage: tuple[Leakage, ...]) -> QualityReport:
        returns = np.asarray(self.returns)
        measured = returns[~np.isnan(returns)]
        outliers = outlying(measured)
        turns = np.asarray(self.agent_turns)
        actions = self._coverage()
        total = len(self.texts)
        low_high = (float(measured.min()), float(measured.max())) if measured.size else None
        return QualityReport(
            statistics=self.statistics.result(),
            returns=_summary(measured),
            return_range=low_high,
            distinct_returns=len(np.unique(measured)),
            outliers=self._found(np.flatnonzero(~np.isnan(returns))[outliers]),
            agent_turns=_summary(turns),
            actions=actions,
            null_turns_share=self.null_turns / total if total else None,
            null=self._found(self.matters["null"]),
            duplicates=self._found(np.flatnonzero(self.digests.duplicates())),
            prefixes=self._found(np.flatnonzero(self.digests.prefixes())),
            without_user=self._found(self.matters["without_user"]),
            without_assistant=self._found(self.matters["without_assistant"]),
            leakage=leakage,
            suggestion=_suggestion(measured[~outliers], turns, actions),
        )

    def _found(self, indices: Sequence[int] | NDArray[Any]) -> Found:
        return Found(len(indices), tuple(self.ids[index] for index in indices[:NAMED]))

    def _coverage(self) -> ActionCoverage:
        total, known = len(self.texts), self.actions.total()
        counts = sorted(self.actions.items(), key=lambda item: (-item[1], item[0]))
        shares = tuple((name, count / known) for name, count in counts)
        entropy = -math.fsum(share * math.log(share) for _, share in shares)
        return ActionCoverage(
            turns=total,
            known_share=known / total if total else None,
            distinct=len(shares),
            effective=math.exp(entropy) if known else None,
            most_frequent=shares[:NAMED],
            distinct_texts_share=len(set(self.texts)) / total if total else None,
        )


def _suggestion(
    returns: NDArray[Any], agent_turns: NDArray[Any], actions: ActionCoverage
) -> Suggestion:
    """The table of the module; `returns` without outliers."""
    if not actions.turns:
        return Suggestion("none", "The assistant never speaks, so there is no action to learn.")
    if len(np.unique(returns)) < 2:
        told = "All returns are equal" if returns.size else "No conversation has a return"
        return Suggestion(
            "bc", f"{told}: nothing tells good replies from bad. Imitate, or collect rewards."
        )
    if len(returns) < FEW_RETURNS:
        return Suggestion(
            "filtered_bc",
            f"{len(returns)} returns are fewer than {FEW_RETURNS}: values learnt from so few "
            f"follow the noise. Imitate the conversations with the highest returns.",
        )
    if np.median(agent_turns) <= 1:
        return Suggestion(
            "filtered_bc",
            "Most conversations have one agent turn at most: none follows whose value could be "
            "learnt, the return is the value of the reply. Imitate the replies with the highest.",
        )
    low, high, mean = returns.min(), returns.max(), returns.mean()
    if mean >= low + NEAR_EXPERT * (high - low):
        return Suggestion(
            "bc",
            f"The mean return {mean:.3g} lies in the top tenth of {low:.3g} to {high:.3g}: from "
            f"near-expert data imitation is as good as offline reinforcement learning "
            f"(arXiv:2004.07219, arXiv:2204.05618).",
        )
    if actions.effective is None or (actions.known_share or 0.0) <= 0.5:
        return Suggestion(
            "iql",
            "Returns vary and the actions are free text: IQL never asks for the value of a reply "
            "that nobody gave (arXiv:2110.06169). Compare with Monte-Carlo values and filtered BC "
            "(arXiv:2311.18232).",
        )
    if actions.effective < ONE_ACTION:
        return Suggestion(
            "bc",
            f"The agent does nearly always the same ({actions.effective:.2f} effective actions): "
            f"there is nothing to choose between. Collect from more varied agents.",
        )
    return Suggestion(
        "cql",
        f"Returns vary and {actions.distinct} actions are known ({actions.effective:.1f} "
        f"effective): CQL is pessimistic about those that are rare here (arXiv:2006.04779). "
        f"Compare with IQL, Monte-Carlo values and filtered BC (arXiv:2311.18232).",
    )


def _return(conversation: Conversation) -> float:
    if conversation.reward is not None:
        return conversation.reward
    rewards = [m.reward for m in conversation.messages if m.reward is not None]
    return math.fsum(rewards) if rewards else math.nan


def _summary(values: NDArray[Any]) -> Summary:
    if not values.size:
        return Summary(0, None, None, ())
    quantiles = tuple(float(value) for value in np.quantile(values, QUANTILES))
    return Summary(len(values), float(values.mean()), float(values.std()), quantiles)


def _array(digests: array[int]) -> NDArray[np.uint64]:
    return np.asarray(digests, dtype=np.uint64)


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _told(found: Found) -> str:
    more = ", …" if found.count > len(found.ids[:3]) else ""
    return f"{found.count:,}" + (f" ({', '.join(found.ids[:3])}{more})" if found.count else "")
