"""The sales desk: an action as a turn, what was said as belief, and the verdict.

    act number ──► turn()        ──┐
    free text  ──► understand()  ──┴─► AgentTurn ──► tools.call / hearing.hear
                                                         └──► belief, diff, ledger ──► grade()
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any

from convgym.domains.sales import calls, cells, rules
from convgym.domains.sales import view as views
from convgym.domains.sales.buyer import Buyer, BuyerState
from convgym.domains.sales.hearing import Hearing
from convgym.domains.sales.records import DeskState, error_json, refresh
from convgym.domains.sales.scenario import scenario
from convgym.domains.sales.tasks import BRANCHES, Task, draw_task, signature, table
from convgym.domains.sales.tools import ShopTools
from convgym.domains.sales.verdict import grade_of
from convgym.domains.sales.vocabulary import (
    ACTIONS,
    BUDGETS,
    END_CONVERSATION,
    KNOWLEDGES,
    LAYOUT,
    OBJECTIONS,
    SAID_CELL,
    TRANSFER_TO_HUMAN,
    U,
)
from convgym.domains.sales.world import CATEGORIES, FEATURES_EACH, World, world
from convgym.engine.acts import AgentTurn, Call, Heard, Said, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.grading import Grade
from convgym.engine.keys import WORDING, draw
from convgym.engine.tasks import SPLITS, TaskTable
from convgym.language.phrases import PhraseBank
from convgym.language.tagging import ActTagger
from convgym.language.tool_calls import RawCall
from convgym.language.voice import Spoken, Voice
from convgym.users.decisions import POINTS, DecisionModel
from convgym.users.persona import TRAITS, Levels

_NEEDS_HEARD = {
    U["inform_needs"]: lambda task: task.must,
    U["inform_needs_wrong"]: lambda task: 1 << task.wrong,
}
_NEED_ADDED = {
    U["inform_need_part"]: lambda task: 1 << task.first,
    U["reject_first"]: lambda task: 1 << task.first,
    U["reject_second"]: lambda task: 1 << task.second,
}
_REJECTS = (U["reject_first"], U["reject_second"], U["reject_dear"])
_REQUEST, _ASK_FEATURE, _LIKE = U["request_product"], U["ask_feature"], U["like_product"]
_COUNTER, _AFFIRM = U["counter_offer"], U["affirm"]
_OBJECTS_TO_PRICE = (_COUNTER, U["object_price"])
_ON_ADDON = (U["take_addon"], U["decline_addon"])
_AGREES = (U["accept_price"], _AFFIRM)
_NOTED = {
    *(_REQUEST, _ASK_FEATURE, _LIKE, *_NEEDS_HEARD, *_NEED_ADDED),
    *(*_OBJECTS_TO_PRICE, *cells.OBJECTS, *_ON_ADDON, *_REJECTS, *_AGREES),
}
"""Acts of the buyer that leave more than that they were said."""
_NEEDED = tuple(
    bytes(needs >> f & 1 for f in range(FEATURES_EACH)) for needs in range(1 << FEATURES_EACH)
)
"""The cells of the needs, by their bit set."""
_UNSAID = bytes(len(LAYOUT) - cells.FIRST_SAID)


@cache
def reader() -> Any:
    """The module that reads replies; it is loaded when the first one comes."""
    from convgym.domains.sales import understanding

    return understanding


_POLICY = slice(cells.POLICY[0], cells.POLICY[-1] + 1)
assert tuple(range(_POLICY.start, _POLICY.stop)) == cells.POLICY


@cache
def _policy_cells(switches: int) -> bytes:
    """Which rules are in force, in the order of `SWITCHES`."""
    return bytes(switches >> place & 1 for place in range(len(cells.POLICY)))


class SalesDesk:
    """Tools, hearing and grading of the sales domain; holds no episode's state."""

    domain = "sales"
    actions = ACTIONS
    layout = LAYOUT
    vocabulary = U
    violations = rules.VIOLATIONS
    scales: dict[str, float] = {}  # noqa: RUF012
    tools = calls.TOOLS_JSON
    utterances = calls.UTTERANCES
    topics = CATEGORIES
    splits = tuple(SPLITS)

    reranker: Any = None
    """Asked about replies in which nothing was read; None: they stay unread."""

    def __init__(self) -> None:
        self.shop: World = world()
        self._tools = ShopTools(self.shop)
        self._hearing = Hearing(self.shop)

    # -- opening -------------------------------------------------------------------------------

    def make_user(self, model: DecisionModel) -> Buyer:
        """The buyer."""
        return Buyer(model)

    def batched(self, model: DecisionModel, max_turns: int) -> Any:
        """This desk and its buyer on rows of integers (`BatchedDomain`)."""
        from convgym.domains.sales.batch import BatchedSales

        return BatchedSales(self, model, max_turns)

    def task(self, split: str, number: int) -> Task:
        """The task called `<split>-<number>`."""
        return draw_task(split, number)

    def table(self, split: str) -> TaskTable:
        """Topic and hardness of all tasks of a split."""
        return table(split)

    def signature(self, task: Task) -> Hashable:
        """What distinguishes two tasks in substance."""
        return signature(task)

    def scenario(self, task: Task) -> tuple[str, str]:
        """The situation, and what would be right, in words for people; names the hidden goal."""
        return scenario(self.shop, task)

    def open(self, episode: Episode, persona: Levels) -> None:
        """Give a fresh episode its private records and the public policy cells."""
        task: Task = episode.task
        episode.desk = DeskState(rules.parameter_dict(task.parameters))
        episode.user = BuyerState(persona, task)
        episode.belief[cells.ALWAYS] = 1
        episode.belief[_POLICY] = _policy_cells(task.switches)

    def policy_document(self, task: Task) -> str:
        """The policy of this episode in words."""
        return rules.document(task.switches, rules.parameter_dict(task.parameters))

    # -- an action as a turn -------------------------------------------------------------------

    def turn(self, episode: Episode, number: int) -> AgentTurn:
        """The agent turn that an action number stands for."""
        action = ACTIONS.actions[number]
        if not ACTIONS.is_legal(episode.belief, number):
            return AgentTurn(errors=(error_json(f"{action.name} refers to nothing seen so far"),))
        spoken = ACTIONS.spoken[number]
        if spoken is not None:
            return spoken
        call = self._tools.call_of(episode, action.kind, action.argument, action.pointer)
        return AgentTurn(calls=(call,))

    def understand(self, episode: Episode, text: str) -> AgentTurn:
        """The agent turn that a reply in free text stands for."""
        return reader().understand(text, self.reranker)

    # -- what the engine asks for --------------------------------------------------------------

    def call(self, episode: Episode, call: Call | RawCall) -> str:
        """Run one tool; a call from text is held against the state now."""
        if isinstance(call, RawCall):
            grounded = calls.ground_call(episode, call)
            if isinstance(grounded, str):
                return self._tools.fail(episode, grounded)
            call = grounded
        return self._tools.call(episode, call)

    def ends(self, call: Call | RawCall) -> bool:
        """Transfers and endings."""
        if isinstance(call, RawCall):
            return call.name in calls.ENDING
        return call.tool in (TRANSFER_TO_HUMAN, END_CONVERSATION)

    def hear(self, episode: Episode, said: Sequence[Any]) -> list[Heard]:
        """What each act of speech means to this buyer."""
        if not all([isinstance(act, Said) for act in said]):
            said = reader().ground_speech(self.shop, episode, said)
        return [self._hearing.hear(episode, act) for act in said]

    def note_user(self, episode: Episode, turn: UserTurn) -> None:
        """Put what the buyer said into the belief."""
        belief, desk, task = episode.belief, episode.desk, episode.task
        belief[cells.FIRST_SAID :] = _UNSAID
        for act in turn.acts:
            belief[SAID_CELL[act]] = 1
            if act in cells.HEARING:
                belief[cells.HEARING[act]] = 1
            if act in _NOTED:
                self._note_act(episode, desk, task, act)
        belief[cells.NEEDS_ALL] = _NEEDED[desk.needs]
        refresh(self.shop, episode)

    def _note_act(self, episode: Episode, desk: DeskState, task: Task, act: int) -> None:
        belief = episode.belief
        if act == _REQUEST:
            belief[cells.HEARD_REQUEST] = belief[cells.WANTS[task.category]] = 1
        elif act in _NEEDS_HEARD:
            desk.needs = _NEEDS_HEARD[act](task)
        elif act in _NEED_ADDED:
            desk.needs |= _NEED_ADDED[act](task)
        elif act == _ASK_FEATURE:
            desk.feature = task.nice
        elif act == _LIKE and desk.named >= 0:
            desk.liked |= 1 << desk.named
        elif act in _OBJECTS_TO_PRICE:
            desk.objected = desk.priced >= 0
            desk.countered |= act == _COUNTER
            belief[cells.PRICE_ACCEPTED] = 0
        elif act in cells.OBJECTS:
            place = cells.OBJECTS.index(act)
            belief[cells.PENDING[place]] = 1
            desk.rival |= OBJECTIONS[place] == "competitor"
        elif act in _ON_ADDON:
            desk.addon = 1 + _ON_ADDON.index(act)
        if act in _REJECTS and desk.named >= 0:
            desk.rejected |= 1 << desk.named
        if act in _AGREES:
            belief[cells.PRICE_ACCEPTED] = 1
        if act == _AFFIRM and desk.asked_to_confirm is not None:
            desk.confirmed = desk.asked_to_confirm
            episode.note("confirmed", self.shop.name(desk.confirmed[0]))

    # -- verdict -------------------------------------------------------------------------------

    def grade(self, episode: Episode) -> Grade:
        """The verdict on the episode as it stands."""
        return grade_of(episode)

    # -- words ---------------------------------------------------------------------------------

    def user_voices(self) -> dict[str, Voice]:
        """The buyer's wordings by part."""
        from convgym.domains.sales import wording

        return wording.user_voices()

    def own_reranker(self) -> Any:
        """A reranker over the shop's own wordings."""
        return reader().own_reranker()

    def user_tagger(self) -> ActTagger:
        """What reads a buyer's words, of a person or a model, as acts."""
        from convgym.domains.sales import user_understanding

        return user_understanding.user_tagger()

    def spoken(self, episode: Episode, turn: UserTurn) -> list[Spoken]:
        """The buyer's turn as acts by name with their values."""
        return views.spoken(episode.task, turn.acts)

    def acts_json(self, episode: Episode, turn: UserTurn) -> str:
        """The buyer's turn as JSON."""
        return views.acts_json(episode.task, turn.acts)

    def goal_values(self, task: Task) -> dict[str, str]:
        """Every value that this task's buyer can state, by act; hidden until it does."""
        return views.goal_values(task)

    def view(self, episode: Episode) -> dict[str, Any]:
        """All that the agent has in sight, by name."""
        return views.view(self.shop, episode)

    def agent_banks(self) -> dict[str, PhraseBank]:
        """The agent's wordings by part."""
        from convgym.domains.sales import wording

        return wording.agent_banks()

    def agent_reply(
        self, number: int, view: Mapping[str, Any], bank: PhraseBank, drawn: int
    ) -> str:
        """An act in words of `bank`, from nothing but the view."""
        from convgym.domains.sales import wording

        return wording.agent_text(number, view, bank, drawn)

    def agent_text(self, episode: Episode, number: int) -> str:
        """An act of the agent in words, for transcripts of episodes played in acts."""
        drawn = draw(episode.wording_key, WORDING, episode.turn, 100)
        return self.agent_reply(number, self.view(episode), self.agent_banks()["train"], drawn)

    def privileged(self, episode: Episode) -> dict[str, Any]:
        """The hidden goal and how far the diff is from it; for `privileged=True` only."""
        task: Task = episode.task
        made = episode.user_turn.decisions if episode.user_turn else ()
        return {
            "branch": BRANCHES[task.branch],
            "category": CATEGORIES[task.category],
            "needs": views.act_value(task, "inform_needs"),
            "quantity": task.quantity,
            "budget": views.act_value(task, "inform_budget"),
            "budget_kind": BUDGETS[task.budget_kind],
            "target": task.target,
            "walk": task.walk,
            "objection": OBJECTIONS[task.objection] if task.objection >= 0 else "",
            "eligible": [self.shop.name(product) for product in task.eligible],
            "allowed": task.allowed,
            "decision": list((task.decision.effect, task.decision.reason)),
            "alternative": task.decision.alternative,
            "diff": [[*key, value] for key, value in episode.diff.items()],
            "bother": episode.user.bother,
            "persona": dict(zip(TRAITS, episode.user.persona, strict=True)),
            "knowledge": KNOWLEDGES[task.knowledge],
            "decisions": [[POINTS[d.point].name, d.situation, d.yes] for d in made],
        }
