"""The support desk: an action as a turn, what was said as belief, and the verdict.

    act number ──► turn()        ──┐
    free text  ──► understand()  ──┴─► AgentTurn ──► tools.call / hearing.hear_one
                                                         └──► belief, diff, ledger ──► grade()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convgym.domains.customer_service import cells, grounding, hearing, rules, wording
from convgym.domains.customer_service.paraphrases import own_reranker
from convgym.domains.customer_service.records import (
    DeskState,
    difference,
    error_json,
    read_what_is_meant,
)
from convgym.domains.customer_service.scenario import scenario
from convgym.domains.customer_service.tasks import (
    IMPOSTOR,
    KNOWLEDGES,
    KNOWS_ID,
    KNOWS_ITEM,
    KNOWS_VAGUELY,
    LOOKS_UP,
    MISTAKEN,
    Task,
    draw_task,
    table,
)
from convgym.domains.customer_service.tools import ShopTools
from convgym.domains.customer_service.understanding import Claim, Reranker
from convgym.domains.customer_service.user_understanding import user_tagger
from convgym.domains.customer_service.vocabulary import (
    ACTIONS,
    EMAIL,
    END_CONVERSATION,
    FACT_CHANNEL,
    FACT_ETA,
    FACT_FEE,
    FACT_STATUS,
    FIND_CUSTOMER,
    GET_STATED_ORDER,
    LAYOUT,
    ORDER,
    POSTCODE,
    SAID_CELL,
    TRANSFER_TO_HUMAN,
    VERIFY_CUSTOMER,
    WRITE,
    WRITES,
    U,
)
from convgym.domains.customer_service.world import REASONS, World, world
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Heard, Said, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.grading import Evidence, Grade, grade
from convgym.engine.keys import WORDING, draw
from convgym.engine.rules import REFUSE, TRANSFER
from convgym.engine.tasks import TaskTable
from convgym.language.tagging import ActTagger
from convgym.language.tool_calls import RawCall
from convgym.language.voice import Spoken, Voice
from convgym.users.agenda import Knowledge, UserState
from convgym.users.decisions import POINTS
from convgym.users.persona import TRAITS, Levels


class CustomerServiceDesk:
    """Tools, hearing and grading of the customer-service domain; holds no episode's state."""

    domain = "customer-service"
    actions = ACTIONS
    layout = LAYOUT
    vocabulary = U
    violations = rules.VIOLATIONS
    scales: dict[str, float] = {"failures": 0.5}  # noqa: RUF012
    tools = grounding.TOOLS_JSON
    utterances = grounding.UTTERANCES
    topics = rules.WORKFLOWS

    reranker: Reranker | None = None
    """Asked about replies in which nothing was read; None: they stay unread."""

    def __init__(self) -> None:
        self.shop: World = world()
        self._tools = ShopTools(self.shop)

    # -- opening -------------------------------------------------------------------------------

    def task(self, split: str, number: int) -> Task:
        """The task called `<split>-<number>`."""
        return draw_task(split, number)

    def table(self, split: str) -> TaskTable:
        """Topic and hardness of all tasks of a split."""
        return table(split)

    def scenario(self, task: Task) -> tuple[str, str]:
        """The situation, and what would be right, in words for people; names the hidden goal."""
        return scenario(self.shop, task)

    def open(self, episode: Episode, persona: Levels) -> None:
        """Give a fresh episode its private records and the public policy cells."""
        task: Task = episode.task
        parameters = rules.parameter_dict(task.parameters)
        episode.desk = DeskState(parameters)
        episode.user = UserState(persona, knowledge(task))
        belief = episode.belief
        belief[cells.ALWAYS] = 1
        belief[cells.TWO_FACTORS] = parameters["auth_level"] == 2
        belief[cells.POLICY_FEE] = parameters["fee"] > 0

    def policy_document(self, task: Task) -> str:
        """The policy of this episode in words."""
        return rules.document(rules.parameter_dict(task.parameters))

    # -- an act number as a turn -----------------------------------------------------------------

    def turn(self, episode: Episode, number: int) -> AgentTurn:
        """The agent turn that an action number stands for."""
        action = ACTIONS.actions[number]
        if not ACTIONS.is_legal(episode.belief, number):
            return AgentTurn(errors=(error_json(f"{action.name} refers to nothing seen so far"),))
        if action.kind < acts.FIRST_TOOL:
            said = Said(action.kind, action.argument, action.pointer, action.value)
            return AgentTurn((said,))
        call = self._call_of(episode, action.kind, action.argument, action.pointer)
        return AgentTurn(calls=(call,))

    def _call_of(self, episode: Episode, tool: int, argument: int, pointer: int) -> Call:
        """Fill in what the customer has said, as a pointer-less act means it."""
        desk: DeskState = episode.desk
        task: Task = episode.task
        if tool == FIND_CUSTOMER:
            return Call(tool, detail=task.customer if desk.heard[EMAIL] == 1 else -1)
        if tool == VERIFY_CUSTOMER:
            matches = desk.heard[POSTCODE] == 1 and desk.customer == task.customer
            return Call(tool, detail=int(matches))
        if tool == GET_STATED_ORDER:
            found = desk.heard[ORDER] == 1 and desk.customer == task.customer
            return Call(tool, pointer=task.pointer if found else -1)
        if tool == WRITE:
            detail = task.reason if WRITES[argument] == "return" else 1
            return Call(tool, argument, pointer, detail)
        return Call(tool, argument, pointer)

    def understand(self, episode: Episode, text: str) -> AgentTurn:
        """The agent turn that a reply in free text stands for."""
        return grounding.understand(text, self.reranker)

    # -- what the engine asks for ------------------------------------------------------------------

    def call(self, episode: Episode, call: Call | RawCall) -> str:
        """Run one tool; a call from text is held against the state now."""
        if isinstance(call, RawCall):
            grounded = grounding.ground_call(self.shop, episode, call)
            if isinstance(grounded, str):
                return self._tools.fail(episode, grounded)
            call = grounded
        return self._tools.call(episode, call)

    def ends(self, call: Call | RawCall) -> bool:
        """Transfers and endings."""
        if isinstance(call, RawCall):
            return call.name in ("transfer_to_human", "end_conversation")
        return call.tool in (TRANSFER_TO_HUMAN, END_CONVERSATION)

    def hear(self, episode: Episode, said: Sequence[Said | Claim]) -> list[Heard]:
        """What each act of speech means to this customer."""
        acts_said = grounding.ground_speech(self.shop, episode, said)
        return [hearing.hear_one(episode, act) for act in acts_said]

    def note_user(self, episode: Episode, turn: UserTurn) -> None:
        """Put what the customer said into the belief."""
        belief, desk = episode.belief, episode.desk
        belief[cells.FIRST_SAID:] = bytes(len(belief) - cells.FIRST_SAID)
        for act in turn.acts:
            belief[SAID_CELL[act]] = 1
            for cell in cells.HEARING.get(act, ()):
                belief[cell] = 1
            if act in cells.VARIANT:
                slot, variant = cells.VARIANT[act]
                desk.heard[slot] = variant
                belief[cells.RESTATES[act]] = 0
            if act == U["affirm"]:
                write, pointer = desk.asked_to_confirm
                if write >= 0:
                    belief[cells.CONFIRMED[write][pointer]] = 1
                    episode.note("confirmed", f"{WRITES[write]} order:{pointer + 1}")
        if desk.customer >= 0:
            self._tools.match(episode)

    # -- verdict -------------------------------------------------------------------------------

    def grade(self, episode: Episode) -> Grade:
        """Evidence of this episode as it stands."""
        task, desk, belief = episode.task, episode.desk, episode.belief
        decision = task.decision
        if decision.reason == "unverified":
            authenticated = read = belief[cells.FAILURES] >= 2
        else:
            authenticated = desk.customer == task.customer and bool(belief[cells.AUTH])
            read = read_what_is_meant(episode)
        told_status = belief[cells.TOLD[FACT_STATUS][task.pointer]]
        told_eta = belief[cells.TOLD[FACT_ETA][task.pointer]]
        goal: dict[tuple[str, int, str], int | str] = {}
        reasons = sum(belief[cell] for cell in cells.DENIED)
        if decision.effect == REFUSE:
            # Naming every reason there is, the right one among them, is no reason; nor is
            # offering everything an offer.
            decided = desk.decided_right and reasons == 1
            its_offer = sum(belief[cell] for cell in cells.OFFERED) == bool(decision.alternative)
            told = bool(episode.user.resolved) and its_offer
        elif decision.effect == TRANSFER:
            decided = desk.transferred and desk.decided_right
            told = not reasons
        elif task.workflow == rules.STATUS:
            decided = bool(told_status or told_eta)
            told = bool(told_status and told_eta) and not reasons
        else:
            # Who refuses first, to see whether the customer puts up with it, has not decided.
            decided, told = desk.decided_right, bool(belief[cells.TOLD_DONE]) and not reasons
            write = WRITES.index(rules.WORKFLOWS[task.workflow])
            goal = difference(write, task.order, task.reason if write == 1 else 1)
        clean = not episode.violations and episode.diff in (goal, {})
        return grade(Evidence(bool(authenticated), bool(read), bool(decided), told, clean))

    # -- words ---------------------------------------------------------------------------------

    def user_voices(self) -> dict[str, Voice]:
        """The customer's wordings by part."""
        return wording.user_voices()

    def own_reranker(self) -> Reranker:
        """A reranker over the desk's own wordings."""
        return own_reranker()

    def user_tagger(self) -> ActTagger:
        """What reads a customer's words, of a person or a model, as acts."""
        return user_tagger()

    def spoken(self, episode: Episode, turn: UserTurn) -> list[Spoken]:
        """The customer's turn as acts by name with their values."""
        return wording.spoken(self.shop, episode.task, turn.acts)

    def acts_json(self, episode: Episode, turn: UserTurn) -> str:
        """The customer's turn as JSON."""
        return wording.acts_json(self.shop, episode.task, turn.acts)

    def goal_values(self, task: Task) -> dict[str, str]:
        """Every value that this task's customer can state, by act; hidden until it does."""
        return wording.goal_values(self.shop, task)

    def view(self, episode: Episode) -> dict[str, Any]:
        """All that the agent has in sight, by name."""
        return wording.view(self.shop, episode)

    def agent_text(self, episode: Episode, number: int) -> str:
        """An act of the agent in words, for transcripts of episodes played in acts."""
        drawn = draw(episode.wording_key, WORDING, episode.turn, 100)
        bank = wording.agent_banks()["train"]
        return wording.agent_text(number, wording.view(self.shop, episode), bank, drawn)

    def privileged(self, episode: Episode) -> dict[str, Any]:
        """The hidden goal and how far the diff is from it; for `privileged=True` only."""
        task: Task = episode.task
        made = episode.user_turn.decisions if episode.user_turn else ()
        return {
            "workflow": rules.WORKFLOWS[task.workflow],
            "order": self.shop.order_id(task.order),
            "decision": list((task.decision.effect, task.decision.reason)),
            "alternative": task.decision.alternative,
            "fee": task.fee,
            "channel": ("original", "credit")[task.channel],
            "diff": [[*key, value] for key, value in episode.diff.items()],
            "bother": episode.user.bother,
            "persona": dict(zip(TRAITS, episode.user.persona, strict=True)),
            "knowledge": KNOWLEDGES[task.knowledge],
            "decisions": [[POINTS[d.point].name, d.situation, d.yes] for d in made],
        }


NUMBERED = (KNOWS_ID, LOOKS_UP, MISTAKEN)
_TERMS = frozenset(((acts.ASK, ORDER), (acts.TELL, FACT_FEE), (acts.TELL, FACT_CHANNEL)))


def knowledge(task: Task) -> Knowledge:
    """What this task's customer wants and can say."""
    described = (U["inform_item"], U["inform_placed"])
    order = {
        KNOWS_ITEM: described,
        KNOWS_VAGUELY: (U["inform_category"], *described),
        MISTAKEN: (U["inform_order_wrong"], *described),
    }.get(task.knowledge, (U["inform_order"], *described))
    impostor = task.branch == IMPOSTOR
    workflow = rules.WORKFLOWS[task.workflow]
    reason = (U[f"inform_reason_{REASONS[task.reason]}"],) if workflow == "return" else ()
    return Knowledge(
        request=U[f"request_{workflow}"],
        ladders=(
            (U["inform_email"],),
            (U["inform_postcode_wrong" if impostor else "inform_postcode"],),
            order,
            reason,
            (U["inform_address"],) if workflow == "address" else (),
        ),
        misremembered=(
            U["inform_email_wrong"],
            U["inform_postcode_wrong"],  # an impostor's draw changes nothing, and shows nothing
            # Who has the number wrong anyway draws for a slip as well, or its log-probability
            # would tell.
            U["inform_order_wrong"] if task.knowledge in NUMBERED else -1,
            -1,
            -1,
        ),
        main_slot=ORDER,
        first_slot=EMAIL,
        must_look_up=task.knowledge == LOOKS_UP,
        alternative=bool(task.decision.alternative),
        facts=(FACT_STATUS, FACT_ETA) if workflow == "status" else (),
        personal=(EMAIL, POSTCODE),
        terms=_TERMS,
    )
