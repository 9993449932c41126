"""A service desk: an action as a turn, what was said as belief, and the verdict.

    act number ──► turn()        ──┐
    free text  ──► understand()  ──┴─► AgentTurn ──► Tools.call / hear_one
                                                         └──► belief, diff, ledger ──► grade()

Several requests follow one another in a conversation. When the customer raises the next one, the
evidence for the one before is put down, and the cells that belong to one request are cleared.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from convgym.desk import grounding, hearing, wording
from convgym.desk.declaration import ACCOUNT, Declaration
from convgym.desk.state import Case, DeskState, difference, error_json
from convgym.desk.tasks import (
    KNOWLEDGES,
    KNOWS_ID,
    KNOWS_LABEL,
    KNOWS_VAGUELY,
    LOOKS_UP,
    MISTAKEN,
    Request,
    Task,
    Tasks,
)
from convgym.desk.tools import RIGHT, STATED_WRONG, UNSTATED, Tools
from convgym.desk.vocabulary import (
    END_CONVERSATION,
    FIND,
    GET_STATED,
    KEY,
    SECRET,
    TRANSFER_TO_HUMAN,
    VERIFY,
    WRITE,
    Vocabulary,
    described_by,
)
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Heard, Said, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.grading import Evidence, Grade, grade
from convgym.engine.rules import REFUSE, TRANSFER
from convgym.engine.tasks import TaskTable
from convgym.language.phrases import PhraseBank
from convgym.language.tagging import ActTagger
from convgym.language.tool_calls import RawCall
from convgym.language.voice import Spoken, Voice
from convgym.users.agenda import AgendaUser
from convgym.users.decisions import POINTS, DecisionModel
from convgym.users.persona import TRAITS, Levels
from convgym.users.user_state import Knowledge, UserState


class ServiceDesk:
    """Tools, hearing and grading of one declared domain; holds no episode's state.

    A subclass hands in the words: `user_voices`, `agent_banks`, `read_speech`, `user_tagger`.
    """

    reranker: Any = None
    """Asked about replies in which nothing was read; None: they stay unread."""

    def __init__(self, vocabulary: Vocabulary, tasks: Tasks) -> None:
        self.v, self._tasks, self.records = vocabulary, tasks, tasks.records
        self.declaration: Declaration = vocabulary.declaration
        self.domain = self.declaration.name
        self.actions, self.layout = vocabulary.actions, vocabulary.layout
        self.vocabulary = vocabulary.u
        self.topics = self.declaration.names
        self.violations = self.declaration.violations
        self.splits = tasks.splits
        self.scales = {"failures": 0.5, "requests": 1 / 3}
        self.schemas = grounding.tool_schemas(self.declaration)
        self.tools = json.dumps(
            [{"type": "function", "function": {"name": n, **b}} for n, b in self.schemas.items()]
        )
        self._tools = Tools(vocabulary, tasks)
        self.value_slots = wording.value_slots(self)
        self.value_sources = wording.value_sources(self)
        self._known: dict[tuple[int, int, int, bool, bool], Knowledge] = {}

    # -- copies: what is shared by all is neither copied nor pickled ------------------------------

    made_from: tuple[Any, ...] = ()
    """What the class takes to make this desk again."""

    def __copy__(self) -> ServiceDesk:
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> ServiceDesk:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.made_from, self.reranker)

    # -- words, of the subclass ------------------------------------------------------------------

    utterances: tuple[str, ...] = ()

    def user_voices(self) -> dict[str, Voice]:
        """The customer's wordings by part."""
        raise NotImplementedError

    def agent_banks(self) -> dict[str, PhraseBank]:
        """The agent's wordings by part."""
        raise NotImplementedError

    def read_speech(self, text: str) -> Sequence[Any]:
        """What an agent's words claim, as (act, slot, value, object), before any grounding."""
        raise NotImplementedError

    def user_tagger(self) -> ActTagger:
        """What reads a customer's words, of a person or a model, as acts."""
        raise NotImplementedError

    def own_reranker(self) -> Any:
        """A reranker over the desk's own wordings."""
        raise NotImplementedError

    # -- what claims in free text mean at this desk ----------------------------------------------

    def reason_meant(self, case: Case, reason: str) -> str:
        """The reason that a refusal in words stands for."""
        return reason

    def sounds_done(self, case: Case, reason: str) -> bool:
        """Whether a refusal for this reason, after the deed, may only tell that it was done."""
        return True

    def left_standing(self, case: Case, said: Sequence[Any]) -> Sequence[Any]:
        """The acts and claims of a reply without those that others of it explain."""
        return said

    def write_meant(self, case: Case, workflow: str, named: str) -> str:
        """The change that a question for a yes, a report or a promise in words speaks of."""
        return workflow

    def agrees_on(self, case: Case, workflow: str, value: str) -> bool:
        """Whether what a question for a yes names is what the customer wants."""
        details = case.workflow.details
        if workflow != case.workflow.name or not value or not details:
            return True
        words = self.declaration.details[details[0]]
        if words:
            return value == words[case.request.detail]
        return self.records.agrees(case.workflow.kind, case.request.row, details[0], value)

    def agrees_with_report(self, case: Case, workflow: str, value: str) -> bool:
        """Whether what a report names is what was done."""
        return self.agrees_on(case, workflow, value)

    def term_told(self, case: Case, told: int, value: str) -> Said:
        """A term as it was told: by the name of its value, or as a number."""
        name = self.v.told[told]
        values = self.declaration.terms[name]
        if value in values:
            return Said(acts.TELL, told, value=values.index(value))
        number = int(value) if value.isdigit() else -1
        right = {0, *(case.request.terms[i] for i, t in enumerate(case.workflow.terms) if t == name
                      and case.request.terms)}
        claim = acts.KNOWN if number in right else acts.FALSE
        return Said(acts.TELL, told, value=int(number > 0), claim=claim)

    # -- opening ---------------------------------------------------------------------------------

    def make_user(self, model: DecisionModel) -> AgendaUser:
        """The customer."""
        return AgendaUser(self.vocabulary, model)

    def batched(self, model: DecisionModel, max_turns: int) -> Any:
        """This desk and its customer on rows of integers (`BatchedDomain`)."""
        from convgym.desk.batch import BatchedDesk

        return BatchedDesk(self, model, max_turns)

    def task(self, split: str, number: int) -> Task:
        """The task called `<split>-<number>`."""
        return self._tasks.draw(split, number)

    def table(self, split: str) -> TaskTable:
        """Topic and hardness of all tasks of a split."""
        return self._tasks.table(split)

    def signature(self, task: Task) -> Hashable:
        """What distinguishes two tasks in substance."""
        return self._tasks.signature(task)

    def open(self, episode: Episode, persona: Levels) -> None:
        """Give a fresh episode its private records and the public policy cells."""
        task: Task = episode.task
        parameters = dict(zip(self.declaration.parameters, task.parameters, strict=True))
        episode.desk = DeskState(parameters, len(self.v.slots), task.faults)
        episode.user = UserState(
            persona, *(self._knowledge(task, request) for request in task.requests)
        )
        episode.belief[self.v.always] = 1
        episode.belief[self.v.two_factors] = parameters["auth_level"] == 2

    def parameters(self, task: Task) -> dict[str, int]:
        """The policy's parameters in a task, by name."""
        return dict(zip(self.declaration.parameters, task.parameters, strict=True))

    def policy_document(self, task: Task) -> str:
        """The policy of this episode in words."""
        return self.declaration.document(task.split, self.parameters(task))

    def _knowledge(self, task: Task, request: Request) -> Knowledge:
        """What the customer can say for one request; of few sorts, each made once."""
        alternative = bool(request.decision.alternative)
        sort = (request.workflow, request.knowledge, request.detail, alternative, task.impostor)
        if sort not in self._known:
            self._known[sort] = self._make_knowledge(*sort)
        return self._known[sort]

    def _make_knowledge(
        self, workflow_number: int, known: int, detail: int, alternative: bool, impostor: bool
    ) -> Knowledge:
        d, u = self.declaration, self.vocabulary
        workflow = d.workflows[workflow_number]
        key, secret = d.account.key, d.account.secret
        ladders: list[tuple[int, ...]] = [
            (u[f"inform_{key}"],),
            (u[f"inform_{secret}_wrong" if impostor else f"inform_{secret}"],),
        ]
        slips = [u[f"inform_{key}_wrong"], u[f"inform_{secret}_wrong"]]
        for kind in d.kinds:
            if kind.name != workflow.kind:
                ladders.append(())
                slips.append(-1)
                continue
            label, date, *vague = described_by(kind)
            described = (u[f"inform_{label}"], u[f"inform_{date}"])
            ladders.append(
                {
                    KNOWS_LABEL: described,
                    KNOWS_VAGUELY: (*(u[f"inform_{field}"] for field in vague), *described),
                    MISTAKEN: (u[f"inform_{kind.name}_wrong"], *described),
                }.get(known, (u[f"inform_{kind.name}"], *described))
            )
            # Who has the number wrong anyway draws for a slip as well, or its log-probability
            # would tell.
            numbered = known in (KNOWS_ID, LOOKS_UP, MISTAKEN)
            slips.append(u[f"inform_{kind.name}_wrong"] if numbered else -1)
        for name, words in d.details.items():
            act = f"inform_{name}_{words[detail]}" if (
                words and name in workflow.details
            ) else f"inform_{name}"
            ladders.append((u[act],) if name in workflow.details else ())
            slips.append(-1)
        slot = d.slots.index(workflow.kind) if workflow.kind else SECRET
        return Knowledge(
            request=u[f"request_{workflow.name}"],
            ladders=tuple(ladders),
            misremembered=tuple(slips),
            main_slot=slot,
            first_slot=KEY,
            must_look_up=known == LOOKS_UP,
            alternative=alternative,
            facts=tuple(self.v.told.index(fact) for fact in workflow.facts),
            personal=(KEY, SECRET),
            terms=self._hard_words,
            asks=tuple(u.get(f"ask_{name}", -1) for name in self.v.told),
            correct=u.get(f"correct_{workflow.kind}", -1),
        )

    @property
    def _hard_words(self) -> frozenset[tuple[int, int]]:
        """What a novice may need explained: numbers of records, and terms."""
        kinds = {(acts.ASK, 2 + i) for i in range(len(self.declaration.kinds))}
        facts = len(self.declaration.facts)
        return frozenset(kinds | {(acts.TELL, i) for i in range(facts, len(self.v.told))})

    # -- an act number as a turn -------------------------------------------------------------------

    def turn(self, episode: Episode, number: int) -> AgentTurn:
        """The agent turn that an action number stands for."""
        action = self.actions.actions[number]
        if not self.actions.is_legal(episode.belief, number):
            return AgentTurn(errors=(error_json(f"{action.name} refers to nothing seen so far"),))
        spoken = self.actions.spoken[number]
        if spoken is not None:
            return spoken
        call = self._call_of(episode, action.kind, action.argument, action.pointer)
        return AgentTurn(calls=(call,))

    def _call_of(self, episode: Episode, tool: int, argument: int, pointer: int) -> Call:
        """Fill in what the customer has said, as a pointer-less act means it."""
        heard = episode.desk.heard
        if tool == FIND:
            return Call(tool, detail=episode.task.account if heard[KEY] == 1 else -1)
        if tool not in (VERIFY, GET_STATED, WRITE):
            return Call(tool, argument, pointer)
        case = Case(self.v, episode)
        if tool == VERIFY:
            right = heard[SECRET] == 1 and case.own_account
            return Call(tool, detail=RIGHT if right else STATED_WRONG)
        if tool == GET_STATED:
            kind = self.declaration.kinds[argument].name
            found = heard[2 + argument] == 1 and case.own_account and case.workflow.kind == kind
            return Call(tool, argument, case.request.pointer if found else -1)
        return Call(tool, argument, pointer, case.request.detail)

    def understand(self, episode: Episode, text: str) -> AgentTurn:
        """The agent turn that a reply in free text stands for."""
        return grounding.understand(text, self.read_speech)

    # -- what the engine asks for ------------------------------------------------------------------

    def call(self, episode: Episode, call: Call | RawCall) -> str:
        """Run one tool; a call from text is held against the state now."""
        if isinstance(call, RawCall):
            grounded = grounding.ground_call(self, episode, call)
            if isinstance(grounded, str):
                return self._tools.fail(episode, grounded)
            call = grounded
        return self._tools.call(episode, call)

    def ends(self, call: Call | RawCall) -> bool:
        """Transfers and endings."""
        if isinstance(call, RawCall):
            return call.name in ("transfer_to_human", "end_conversation")
        return call.tool in (TRANSFER_TO_HUMAN, END_CONVERSATION)

    def hear(self, episode: Episode, said: Sequence[Any]) -> list[Heard]:
        """What each act of speech means to this customer."""
        case = Case(self.v, episode)
        if not (len(said) == 1 and isinstance(said[0], Said)):  # one act is heard as it is
            said = grounding.ground_speech(self, case, said)
        return [hearing.hear_one(case, act) for act in said]

    def note_user(self, episode: Episode, turn: UserTurn) -> None:
        """Put what the customer said into the belief."""
        v, belief, desk = self.v, episode.belief, episode.desk
        affirm = self.vocabulary["affirm"]
        belief[v.first_said :] = v.unsaid
        news = False
        for act in turn.acts:
            belief[v.said[act]] = 1
            for cell in v.raises.get(act, ()):
                belief[cell] = news = True
            if act in v.variants:
                slot, variant = v.variants[act]
                desk.heard[slot] = variant
                belief[v.rejected[slot]] = 0
            if act == affirm:
                self._note_yes(episode)
        if episode.user.at > desk.at:
            # What is said beside the next request was still said of the one before.
            self._tools.match(episode)
            self._settle(episode)
        wanted = episode.task.requests[desk.at].workflow
        if v.request_acts[wanted] in turn.acts and not belief[v.wants[wanted]]:
            self._note_request(Case(v, episode))
            news = True
        if news and desk.account >= 0:
            self._tools.match(episode)
            self._tools.weigh(episode)

    def _note_yes(self, episode: Episode) -> None:
        write, pointer = episode.desk.asked_to_confirm
        if write >= 0:
            workflow = self.declaration.writes[write]
            episode.belief[self.v.confirmed[write][max(pointer, 0)]] = 1
            on = f" {workflow.kind}:{pointer + 1}" if workflow.kind else ""
            episode.note("confirmed", f"{workflow.name}{on}")

    def _note_request(self, case: Case) -> None:
        """The customer has said what is wanted: what may be said of it is legal from now on."""
        v, d = self.v, self.declaration
        case.belief[v.wants[case.request.workflow]] = 1
        case.belief[v.requests] = case.desk.at + 1
        for rule in d.rules.deciding(case.workflow.name):
            if rule.effect == REFUSE:
                case.belief[v.can_deny[v.reason_number[rule.decision.reason]]] = 1
                if rule.alternative:
                    case.belief[v.can_offer[d.offers.index(rule.alternative)]] = 1
        case.belief[v.can_deny[v.reason_number["unverified"]]] = 1
        case.authenticate()

    def _settle(self, episode: Episode) -> None:
        """The customer turns to its next request: put down what became of this one."""
        v, desk, belief = self.v, episode.desk, episode.belief
        case = Case(v, episode)
        desk.settled.append(self._evidence(case))
        belief[v.handled[case.request.workflow]] = 1
        for cell in v.of_request:
            belief[cell] = 0
        for slot in range(2, len(v.slots)):
            desk.heard[slot] = 0
        desk.asked_to_confirm, desk.decided_right, desk.told = (-1, -1), False, 0
        desk.at += 1

    # -- verdict -----------------------------------------------------------------------------------

    def grade(self, episode: Episode) -> Grade:
        """Evidence of this episode as it stands, over all of its requests."""
        case = Case(self.v, episode)
        now = self._evidence(case)
        clean = not episode.violations and episode.diff in self._allowed(episode)
        asked = len(episode.task.requests)
        if asked == 1:
            return grade(now._replace(clean=clean))
        each = [grade(one._replace(clean=clean)) for one in (*episode.desk.settled, now)]
        success = len(each) == asked and all(one.success for one in each)
        shown = (*episode.desk.settled, now)
        whole = Evidence(
            authenticated=all(one.authenticated for one in shown),
            read=all(one.read for one in shown),
            decided=all(one.decided for one in shown),
            told=all(one.told for one in shown),
            clean=clean,
        )
        return Grade(
            success,
            sum(one.graded for one in each) / asked,
            sum(one.progress for one in each) / asked,
            whole,
        )

    def _allowed(self, episode: Episode) -> list[dict[tuple[str, int, str], int | str]]:
        """The diffs that a conversation may have so far: with or without the newest change."""
        done: dict[tuple[str, int, str], int | str] = {}
        for request in episode.task.requests[: episode.desk.at]:
            done.update(self._goal(request))
        now = episode.task.requests[episode.desk.at]
        return [done, done | self._goal(now)]

    def _goal(self, request: Request) -> dict[tuple[str, int, str], int | str]:
        workflow = self.declaration.workflows[request.workflow]
        if not workflow.tool or request.decision.effect in (REFUSE, TRANSFER):
            return {}
        return difference(workflow, request.row, request.detail)

    def _evidence(self, case: Case) -> Evidence:
        """What there is to show for the request the episode is at."""
        v, belief, desk = self.v, case.belief, case.desk
        decision = case.request.decision
        if decision.reason == "unverified":
            authenticated = read = belief[v.failures] >= 2
        else:
            authenticated = case.own_account and bool(belief[v.authenticated])
            read = case.read
        reasons = sum(belief[cell] for cell in v.denied)
        if decision.effect == REFUSE:
            # Naming every reason there is, the right one among them, is no reason; nor is
            # offering everything an offer. Others that hold as well may be named beside it.
            decided = desk.decided_right and not self._named_falsely(case)
            its_offer = sum(belief[cell] for cell in v.offered) == bool(decision.alternative)
            told = self._took_refusal(case) and its_offer
        elif decision.effect == TRANSFER:
            decided = desk.transferred and desk.decided_right
            told = not reasons
        elif case.workflow.facts:
            told_facts = [desk.told >> v.told.index(fact) & 1 for fact in case.workflow.facts]
            decided, told = any(told_facts), all(told_facts) and not reasons
        else:
            # Who refuses first, to see whether the customer puts up with it, has not decided.
            decided, told = desk.decided_right, bool(belief[v.told_done]) and not reasons
        return Evidence(bool(authenticated), bool(read), bool(decided), bool(told), True)

    def _named_falsely(self, case: Case) -> bool:
        """Whether a reason was named that does not hold for what is asked."""
        d, request = self.declaration, case.request
        named = {d.reasons[i] for i, cell in enumerate(self.v.denied) if case.belief[cell]}
        if named <= {request.decision.reason}:
            return False
        rules, parameters = d.rules_for(case.episode.task.split), case.desk.parameters
        facts = {**self._tasks.facts(case.workflow.kind, request.row, case.episode.task.account)}
        facts |= {name: request.detail for name in case.workflow.details}
        hold = {
            rule.decision.reason
            for rule in rules.deciding(case.workflow.name)
            if rule.effect == REFUSE and rules.fires(rule.code, facts, parameters)
        }
        return not named <= {request.decision.reason, *hold}

    @staticmethod
    def _took_refusal(case: Case) -> bool:
        user, at = case.episode.user, case.desk.at
        return bool(user.taken >> at & 1)

    # -- words -------------------------------------------------------------------------------------

    def shown(self, kind: str, row: int, read: bool) -> dict[str, str]:
        """What is in sight of a record, by name; `read` is set once it has been read."""
        fields = [kind, *self.declaration.kind[kind].listed]
        if read:
            fields += self.declaration.kind[kind].shown
            fields += [fact for fact, of in self.declaration.facts.items() if of == kind]
        shown = {field: self.records.text(kind, row, field) for field in fields}
        return {**shown, "read": "yes"} if read else shown

    def policy_view(self, case: Case, wants: str) -> dict[str, str]:
        """What the agent's words may take from the policy, by name."""
        return {name: str(value) for name, value in case.desk.parameters.items()}

    def meaning_of(self, case: Case) -> str:
        """Which word a customer asks the meaning of: that of a term that was told, or a number."""
        told = any(case.belief[cell] for cells in self.v.told_term.values() for cell in cells)
        return "meaning" if told else "order"

    def phrase_key(self, number: int, seen: Mapping[str, Any], record: Mapping[str, str]) -> str:
        """Under which name the wordings of an act stand."""
        return wording.phrase_key(self, number, seen)

    def spoken(self, episode: Episode, turn: UserTurn) -> list[Spoken]:
        """The customer's turn as acts by name with their values."""
        return wording.spoken(self, episode, turn)

    def acts_json(self, episode: Episode, turn: UserTurn) -> str:
        """The customer's turn as JSON."""
        return wording.acts_json(self, episode, turn)

    def goal_values(self, task: Task) -> dict[str, str]:
        """Every value that this task's customer can state, by act; hidden until it does."""
        return wording.goal_values(self, task)

    def view(self, episode: Episode) -> dict[str, Any]:
        """All that the agent has in sight, by name."""
        return wording.view(self, episode)

    def agent_text(self, episode: Episode, number: int) -> str:
        """An act of the agent in words, for transcripts of episodes played in acts."""
        return wording.agent_text_of(self, episode, number)

    def agent_reply(
        self, number: int, view: Mapping[str, Any], bank: PhraseBank, drawn: int
    ) -> str:
        """An act in words of `bank`, from nothing but the view."""
        return wording.agent_text(self, number, view, bank, drawn)

    def scenario(self, task: Task) -> tuple[str, str]:
        """The situation, and what would be right, in words for people; names the hidden goal."""
        return wording.scenario(self, task)

    def privileged(self, episode: Episode) -> dict[str, Any]:
        """The hidden goal and how far the diff is from it; for `privileged=True` only."""
        task: Task = episode.task
        made = episode.user_turn.decisions if episode.user_turn else ()
        return {
            "requests": [self._told_plainly(request) for request in task.requests],
            "impostor": task.impostor,
            "at": episode.desk.at,
            "diff": [[*key, value] for key, value in episode.diff.items()],
            "bother": episode.user.bother,
            "persona": dict(zip(TRAITS, episode.user.persona, strict=True)),
            "decisions": [[POINTS[d.point].name, d.situation, d.yes] for d in made],
        }

    def _told_plainly(self, request: Request) -> dict[str, Any]:
        workflow = self.declaration.workflows[request.workflow]
        name = workflow.kind or self.declaration.account.key
        kind = workflow.kind or ACCOUNT
        return {
            "workflow": workflow.name,
            "record": self.records.text(kind, request.row, name),
            "decision": [request.decision.effect, request.decision.reason],
            "alternative": request.decision.alternative,
            "terms": dict(zip(workflow.terms, request.terms, strict=False)),
            "knowledge": KNOWLEDGES[request.knowledge],
        }


def _made(kind: type[ServiceDesk], made_from: tuple[Any, ...], reranker: Any) -> ServiceDesk:
    """A pickled desk, made again."""
    desk = kind(*made_from)
    desk.reranker = reranker
    return desk


__all__ = ["RIGHT", "STATED_WRONG", "UNSTATED", "ServiceDesk"]
