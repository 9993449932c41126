"""The support desk: an action as a turn, what was said as belief, and the verdict.

    act number ──► turn()        ──┐
    free text  ──► understand()  ──┴─► AgentTurn ──► tools.run / hearing.hear
                                                         └──► belief, diff, device ──► grade()
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any

from convgym.desk.grounding import understand
from convgym.desk.state import error_json
from convgym.domains.technical_support import (
    calls,
    cells,
    hearing,
    records,
    role,
    rules,
    tools,
)
from convgym.domains.technical_support import view as views
from convgym.domains.technical_support.customer import SupportState, SupportUser
from convgym.domains.technical_support.dialogue import (
    ACTIONS,
    CONFIRMS,
    END_CONVERSATION,
    LAYOUT,
    SAW,
    SCALES,
    TRANSFER_TO_HUMAN,
    U,
)
from convgym.domains.technical_support.faults import FAULTS
from convgym.domains.technical_support.goals import goal, signature
from convgym.domains.technical_support.physics import works
from convgym.domains.technical_support.records import DeskState
from convgym.domains.technical_support.scenario import scenario
from convgym.domains.technical_support.tasks import DOMAIN, KNOWLEDGES, Task, draw_task, table
from convgym.domains.technical_support.verdict import grade_of
from convgym.domains.technical_support.vocabulary import KINDS, OK, OPERATIONS, SERVICE
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

_UNSAID = bytes(len(LAYOUT) - cells.FIRST_SAID)
_DEEDS = (U["did_it"], U["claim_it"])


@cache
def reader() -> Any:
    """The module that reads replies; it is loaded when the first one comes."""
    from convgym.domains.technical_support import understanding

    return understanding


class SupportDesk:
    """Tools, hearing and grading of technical support; holds no episode's state."""

    domain = DOMAIN
    actions = ACTIONS
    layout = LAYOUT
    vocabulary = U
    violations = records.VIOLATIONS
    scales = SCALES
    tools = calls.TOOLS_JSON
    utterances = calls.UTTERANCES
    topics = KINDS
    splits = tuple(SPLITS)

    reranker: Any = None
    """Asked about replies in which nothing was read; None: they stay unread."""

    # -- opening -------------------------------------------------------------------------------

    def make_user(self, model: DecisionModel) -> SupportUser:
        """The customer."""
        return SupportUser(model)

    def batched(self, model: DecisionModel, max_turns: int) -> Any:
        """This desk and its customer on rows of integers (`BatchedDomain`)."""
        from convgym.domains.technical_support.batch import BatchedSupport

        return BatchedSupport(self, model, max_turns)

    def task(self, split: str, number: int) -> Task:
        """The task called `<split>-<number>`."""
        return draw_task(split, number)

    def table(self, split: str) -> TaskTable:
        """Topic and hardness of all tasks of a split."""
        return table(split)

    def signature(self, task: Task) -> Hashable:
        """What distinguishes two tasks in substance."""
        return task.device, signature(task)

    def scenario(self, task: Task) -> tuple[str, str]:
        """The situation, and what would be right, in words for people; names the hidden goal."""
        return scenario(task)

    def describe(self, episode: Episode) -> str:
        """The customer of this episode, for whoever plays it."""
        return role.describe(episode)

    def open(self, episode: Episode, persona: Levels) -> None:
        """Give a fresh episode its private records and the public policy cells."""
        task: Task = episode.task
        parameters = rules.parameter_dict(task.parameters)
        episode.desk = DeskState(parameters, task.state)
        episode.user = SupportState(persona, task)
        episode.belief[cells.ALWAYS] = 1
        episode.belief[cells.TWO_FACTORS] = parameters["auth_level"] == 2
        for bit, cell in enumerate(cells.POLICY):
            episode.belief[cell] = task.active >> bit & 1

    def policy_document(self, task: Task) -> str:
        """The policy of this episode in words."""
        return rules.document(task.active, rules.parameter_dict(task.parameters))

    # -- the device, which the customer handles ------------------------------------------------

    def look(self, episode: Episode, check: int) -> int:
        """What a check shows now; changes nothing."""
        return records.shown(episode, check)

    def act(self, episode: Episode, step: int) -> None:
        """The customer does a step: the device changes for both sides."""
        records.act_on(episode, step)

    # -- an action as a turn -------------------------------------------------------------------

    def turn(self, episode: Episode, number: int) -> AgentTurn:
        """The agent turn that an action number stands for."""
        action = ACTIONS.actions[number]
        if not ACTIONS.is_legal(episode.belief, number):
            return AgentTurn(errors=(error_json(f"{action.name} refers to nothing seen so far"),))
        spoken = ACTIONS.spoken[number]
        if spoken is not None:
            return spoken
        call = tools.call_of(episode, action.kind, action.argument, action.pointer)
        return AgentTurn(calls=(call,))

    def understand(self, episode: Episode, text: str) -> AgentTurn:
        """The agent turn that a reply in free text stands for."""
        read = reader()
        return understand(
            read.shown_as_quotes(text), lambda speech: read.read_speech(speech, self.reranker)
        )

    # -- what the engine asks for --------------------------------------------------------------

    def call(self, episode: Episode, call: Call | RawCall) -> str:
        """Run one tool; a call from text is held against the state now."""
        if isinstance(call, RawCall):
            grounded = calls.ground_call(episode, call)
            if isinstance(grounded, str):
                return tools.fail(episode, grounded)
            call = grounded
        return tools.run(episode, call)

    def ends(self, call: Call | RawCall) -> bool:
        """Transfers and endings."""
        if isinstance(call, RawCall):
            return call.name in calls.ENDING
        return call.tool in (TRANSFER_TO_HUMAN, END_CONVERSATION)

    def hear(self, episode: Episode, said: Sequence[Any]) -> list[Heard]:
        """What each act of speech means to this customer."""
        if not all([isinstance(act, Said) for act in said]):
            from convgym.domains.technical_support.grounding import ground_speech

            said = ground_speech(episode, said)
        return hearing.hear(episode, said)

    def note_user(self, episode: Episode, turn: UserTurn) -> None:
        """Put what the customer said into the belief, and what it did to the device."""
        belief, desk, task = episode.belief, episode.desk, episode.task
        belief[cells.FIRST_SAID :] = _UNSAID
        # What was done comes before what is seen of it, in whatever order it is told.
        for act in sorted(turn.acts, key=lambda act: act not in _DEEDS):
            if act in SAW:
                self._note_sight(episode, *SAW[act])
                continue
            belief[cells.SAID_CELL[act]] = 1
            if act in _DEEDS:
                self._note_deed(episode, act)
            elif act in cells.RAISES:
                self._note_request(episode, act)
            elif act in cells.STATES:
                slot, desk.heard[slot] = cells.STATES[act][0], cells.STATES[act][1]
                belief[cells.HEARD[slot]], belief[cells.REJECTED[slot]] = 1, 0
            elif act == U["affirm"]:
                self._note_yes(episode)
            elif act == U["not_done"]:
                desk.step = records.NOTHING
        if (belief[cells.HEARD_KIND] or belief[cells.HEARD_ROOM]) and desk.in_hand < 0:
            records.note_kind(episode, task.kind)
        records.match(episode)
        if turn.closed:
            records.check_end(episode)

    @staticmethod
    def _note_request(episode: Episode, act: int) -> None:
        """What is wrong, or which device it is; said again later it is no news."""
        belief, cell = episode.belief, cells.RAISES[act]
        if cell == cells.HEARD_REQUEST and not belief[cell]:
            records.note_look(episode, SERVICE, episode.task.symptom)
        belief[cell] = 1

    @staticmethod
    def _note_sight(episode: Episode, look: int, value: int) -> None:
        records.note_look(episode, look, value)
        if look == SERVICE:
            episode.desk.seen_working = value == OK and works(episode.desk.device)

    @staticmethod
    def _note_deed(episode: Episode, act: int) -> None:
        """The step that was asked for is said to be done; nobody has done it yet where a
        person or a model plays the customer."""
        desk = episode.desk
        if desk.step < 0:
            return
        step = desk.step
        if act == U["did_it"]:
            records.act_on(episode, step)
        desk.seen_working, desk.step = False, records.NOTHING
        episode.note("step", OPERATIONS[step].name)
        records.note_operation(episode, step)

    @staticmethod
    def _note_yes(episode: Episode) -> None:
        desk, belief = episode.desk, episode.belief
        asked = desk.asked_to_confirm
        if asked < 0:
            return
        if asked < len(cells.CONFIRMED):
            belief[cells.CONFIRMED[asked]] = 1
        else:
            belief[cells.AGREED_RESET] = 1
        desk.asked_to_confirm = records.NOTHING
        episode.note("confirmed", CONFIRMS[asked])

    # -- verdict -------------------------------------------------------------------------------

    def grade(self, episode: Episode) -> Grade:
        """The verdict on the episode as it stands."""
        return grade_of(episode)

    # -- words ---------------------------------------------------------------------------------

    def user_voices(self) -> dict[str, Voice]:
        """The customer's wordings by part."""
        import convgym.domains.technical_support.wording as wording

        return wording.user_voices()

    def own_reranker(self) -> Any:
        """A reranker over the desk's own wordings."""
        return reader().own_reranker()

    def user_tagger(self) -> ActTagger:
        """What reads a customer's words, of a person or a model, as acts."""
        from convgym.domains.technical_support import user_understanding

        return user_understanding.user_tagger()

    def spoken(self, episode: Episode, turn: UserTurn) -> list[Spoken]:
        """The customer's turn as acts by name with their values."""
        return views.spoken(episode.task, turn.acts)

    def acts_json(self, episode: Episode, turn: UserTurn) -> str:
        """The customer's turn as JSON."""
        return views.acts_json(episode.task, turn.acts)

    def goal_values(self, task: Task) -> dict[str, str]:
        """Every value that this task's customer can state, by act; hidden until it does."""
        return views.goal_values(task)

    def view(self, episode: Episode) -> dict[str, Any]:
        """All that the agent has in sight, by name."""
        return views.view(episode)

    def agent_banks(self) -> dict[str, PhraseBank]:
        """The agent's wordings by part."""
        import convgym.domains.technical_support.wording as wording

        return wording.agent_banks()

    def agent_reply(
        self, number: int, view: Mapping[str, Any], bank: PhraseBank, drawn: int
    ) -> str:
        """An act in words of `bank`, from nothing but the view."""
        import convgym.domains.technical_support.wording as wording

        return wording.agent_text(number, view, bank, drawn)

    def agent_text(self, episode: Episode, number: int) -> str:
        """An act of the agent in words, for transcripts of episodes played in acts."""
        drawn = draw(episode.wording_key, WORDING, episode.turn, 100)
        return self.agent_reply(number, self.view(episode), self.agent_banks()["train"], drawn)

    def privileged(self, episode: Episode) -> dict[str, Any]:
        """The hidden goal and how far the device is from it; for `privileged=True` only."""
        task: Task = episode.task
        wanted, made = goal(task), episode.user_turn.decisions if episode.user_turn else ()
        broken = [FAULTS[number].code for number in task.faults if not FAULTS[number].holds(
            episode.desk.device
        )]  # fmt: skip
        return {
            **views.goal_in_words(task),
            "faults": [FAULTS[number].code for number in task.faults],
            "still_broken": broken,
            "works": works(episode.desk.device),
            "decision": [task.decision.effect, task.decision.reason],
            "alternative": task.decision.alternative,
            "required": [op.name for n, op in enumerate(OPERATIONS) if wanted.required >> n & 1],
            "diff": [[*key, value] for key, value in episode.diff.items()],
            "bother": episode.user.bother,
            "persona": dict(zip(TRAITS, episode.user.persona, strict=True)),
            "knowledge": KNOWLEDGES[task.knowledge],
            "decisions": [[POINTS[d.point].name, d.situation, d.yes] for d in made],
        }
