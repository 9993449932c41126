"""Many support desks at once: `convgym.domains.customer_service.desk` on integer arrays.

    actions (n,) ──► legal? ──► tools, kind by kind ──► belief, diff
                        └─────► what was said, kind by kind ──► verdicts ──► users ──► belief
                                                                       └──► grade()

Row i after any steps equals, bit for bit, the plain episode with the same task, key, persona
and actions. Sections and helpers stand in the order of the plain desk and under its names;
`rows` are row numbers, none twice, and `act` holds the action number of each.

Acts only, and no ledger. An act can open no other account than that of the task's customer,
and cannot write another reason or address than the customer's own, which shortens two things:

    desk.customer == task.customer   is the cell `found`
    diff                             is a bit set, one bit for each kind of write and order
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.domains.customer_service import cells, rules
from convgym.domains.customer_service.desk import knowledge
from convgym.domains.customer_service.records import VIOLATION
from convgym.domains.customer_service.tasks import Task
from convgym.domains.customer_service.vocabulary import (
    ACTIONS,
    EMAIL,
    END_CONVERSATION,
    FACT_CHANNEL,
    FACT_ETA,
    FACT_FEE,
    FACT_STATUS,
    FIND_CUSTOMER,
    GET_ORDER,
    GET_STATED_ORDER,
    LAYOUT,
    LIST_ORDERS,
    ORDER,
    ORDERS,
    POSTCODE,
    SAID_CELL,
    SLOTS,
    TRANSFER_TO_HUMAN,
    USER_ACTS,
    VERIFY_CUSTOMER,
    WRITE,
    WRITES,
    U,
)
from convgym.domains.customer_service.world import ORDERS_EACH, world
from convgym.engine import acts
from convgym.engine.engine import ERROR_BUDGET
from convgym.engine.grading import Evidence, grade
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER
from convgym.users.agenda_batch import (
    BatchedAgendaUser,
    Columns,
    Flags,
    Ints,
    Knowledges,
    Rows,
    UserStates,
    by_kind,
)

ENDS = ("", "agent_ended", "transferred", "user_closed", "error_budget_spent", "turn_cap")
"""What `end` numbers mean."""
_END = {name: number for number, name in enumerate(ENDS)}
_EFFECT = {name: number for number, name in enumerate((ALLOW, REFUSE, TRANSFER))}
_RIGHT = 1  # a slot's value was given, and is right

_KIND, _ARGUMENT, _POINTER, _VALUE = np.array(
    [(action.kind, action.argument, action.pointer, action.value) for action in ACTIONS.actions]
).T
_RETURN = WRITES.index("return")
_UNVERIFIED = rules.DENIALS.index("unverified")
_WRITE_OF = np.array([WRITES.index(w) if w in WRITES else -1 for w in rules.WORKFLOWS])

# The desk's cells, as arrays to be indexed with arrays.
_SEEN, _READ, _ASKED = np.array(cells.SEEN), np.array(cells.READ), np.array(cells.ASKED)
_ID_MATCH, _ITEM_MATCH = np.array(cells.ID_MATCH), np.array(cells.ITEM_MATCH)
_CONFIRMED, _WRITTEN = np.array(cells.CONFIRMED), np.array(cells.WRITTEN)  # (writes, orders)
_DENIED, _OFFERED, _STAGE = np.array(cells.DENIED), np.array(cells.OFFERED), np.array(cells.STAGE)
_READING = {name: np.array(block) for name, block in cells.READING.items()}
_REJECTED = np.array([cells.REJECTED.get(slot, -1) for slot in range(len(SLOTS))])
_TOLD = np.array([(*cells.TOLD[fact], -1)[:ORDERS_EACH] for fact in sorted(cells.TOLD)])

# What the customer's acts do to belief and desk.
_SETS = np.full((len(USER_ACTS), 3), cells.ALWAYS)
_VARIANTS = np.full((len(USER_ACTS), 2), -1)  # slot, right or wrong
for _act, _cell in enumerate(SAID_CELL):
    _set = (_cell, *cells.HEARING.get(_act, ()))
    _SETS[_act, : len(_set)] = _set
    _VARIANTS[_act] = cells.VARIANT.get(_act, (-1, -1))


def _grades(reached: int) -> list[tuple[bool, float, float]]:
    """Verdicts where the first `reached` pieces of evidence are there: unclean, clean."""
    first = [piece < reached for piece in range(4)]
    return [grade(Evidence._make([*first, clean]))[:3] for clean in (False, True)]


_GRADES = np.array([_grades(reached) for reached in range(5)])  # (5, 2, 3)


def _bit(write: Ints | int, pointer: Ints | int) -> Ints:
    """A write to an order, as a member of `diff`."""
    return np.left_shift(1, write * ORDERS_EACH + pointer)


class Tasks(Columns):
    """`Task`s compiled to columns."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        def column(name: str) -> Ints:
            return np.array([getattr(task, name) for task in tasks])

        decisions = [task.decision for task in tasks]
        self.workflow, self.pointer, self.channel = map(column, ("workflow", "pointer", "channel"))
        self.fee = column("fee") > 0
        self.parameters = column("parameters")  # (n, 8)
        self.effect = np.array([_EFFECT[one.effect] for one in decisions])
        self.refusal = np.array([_index(rules.DENIALS, one.reason) for one in decisions])
        self.alternative = np.array([_index(rules.OFFERS, one.alternative) for one in decisions])
        self.orders = column("customer")[:, None] * ORDERS_EACH + np.arange(ORDERS_EACH)  # (n, 3)
        item = world().columns["item"]
        self.same_item = item[self.orders] == item[column("order")][:, None]  # (n, 3)
        writes = (self.effect == _EFFECT[ALLOW]) & (self.workflow != rules.STATUS)
        self.goal = np.where(writes, _bit(np.maximum(_WRITE_OF[self.workflow], 0), self.pointer), 0)
        self.knowledge = Knowledges([knowledge(task) for task in tasks])


class Episodes(Columns):
    """`Episode`s with their `DeskState`s and `UserState`s, all of one length."""

    def __init__(self, tasks: Tasks, user_keys: NDArray[np.uint64], personas: Ints) -> None:
        n = len(user_keys)
        self.task = tasks
        self.user = UserStates(user_keys, personas, tasks.knowledge)
        self.belief = np.zeros((n, len(LAYOUT)), dtype=np.uint8)
        self.turn, self.errors, self.violations, self.diff, self.end = np.zeros(
            (5, n), dtype=np.int64
        )
        self.truncated = np.zeros(n, dtype=bool)
        # the desk's
        self.heard = np.zeros((n, len(SLOTS)), dtype=np.int64)
        self.asked_to_confirm = np.full((n, 2), -1)  # write and pointer
        self.decided_right, self.transferred = np.zeros((2, n), dtype=bool)


class BatchedCustomerService:
    """n conversations of at most `max_turns`, stepped together.

    `episodes` holds the arrays: `belief`, `violations`, `errors`, `end` (see `ENDS`),
    `truncated`, and under `user` the newest turn's `acts` and `log_prob`, in `LOG_UNIT`s.
    """

    def __init__(self, n: int, max_turns: int) -> None:
        self.n, self.max_turns = n, max_turns
        self.user = BatchedAgendaUser(U)
        self.shop = world().columns
        self.episodes: Episodes
        self._tools = {
            FIND_CUSTOMER: self._find,
            VERIFY_CUSTOMER: self._verify,
            LIST_ORDERS: self._list,
            GET_STATED_ORDER: self._get_stated,
            GET_ORDER: self._get,
            WRITE: self._write,
            TRANSFER_TO_HUMAN: self._transfer,
            END_CONVERSATION: self._end,
        }
        self._hearings = {
            acts.ASK: self._hear_question,
            acts.TELL: self._hear_fact,
            acts.CONFIRM: self._hear_confirm,
            acts.DENY: self._hear_denial,
            acts.OFFER: self._hear_offer,
            acts.REPORT_DONE: self._hear_report,
        }

    # -- opening -------------------------------------------------------------------------------

    def open(
        self, tasks: Sequence[Task] | Tasks, user_keys: NDArray[np.uint64], personas: Ints
    ) -> None:
        """Begin n conversations; the users speak first."""
        assert len(user_keys) == self.n
        self.episodes = self._opened(tasks, user_keys, personas)

    def reopen(
        self,
        rows: Rows,
        tasks: Sequence[Task] | Tasks,
        user_keys: NDArray[np.uint64],
        personas: Ints,
    ) -> None:
        """Begin new conversations in `rows`; the other rows stay as they are."""
        self.episodes[rows] = self._opened(tasks, user_keys, personas)

    def _opened(
        self, tasks: Sequence[Task] | Tasks, user_keys: NDArray[np.uint64], personas: Ints
    ) -> Episodes:
        columns = tasks if isinstance(tasks, Tasks) else Tasks(tasks)
        rows = np.arange(len(user_keys))
        e = Episodes(columns[rows], user_keys.copy(), personas.copy())
        parameters = self._parameters(e, rows)
        e.belief[:, cells.ALWAYS] = 1
        e.belief[:, cells.TWO_FACTORS] = parameters["auth_level"] == 2
        e.belief[:, cells.POLICY_FEE] = parameters["fee"] > 0
        self.user.open(e.user)
        self._note_user(e, rows)
        return e

    @staticmethod
    def _parameters(e: Episodes, rows: Rows) -> dict[str, Ints]:
        return dict(zip(rules.PARAMETER_NAMES, e.task.parameters[rows].T, strict=True))

    # -- one step ------------------------------------------------------------------------------

    def masks(self) -> NDArray[np.int8]:
        """1 for every legal action.  # (n, actions)"""
        return ACTIONS.mask(self.episodes.belief)

    def step(self, actions: Ints) -> None:
        """Do one act in every conversation that has not ended; see `Engine.apply`."""
        e = self.episodes
        rows = np.flatnonzero(e.end == _END[""])
        act = actions[rows]
        e.turn[rows] += 1
        e.user.hush(rows)
        legal = e.belief[rows[:, None], ACTIONS.needs[act]].all(axis=1)
        e.errors[rows] += ~legal
        speech = _KIND[act] < acts.FIRST_TOOL
        self._call(e, rows[legal & ~speech], act[legal & ~speech])
        self._speak(e, rows[legal & speech], act[legal & speech])
        spent = rows[(e.end[rows] == _END[""]) & (e.errors[rows] >= ERROR_BUDGET)]
        e.end[spent] = _END["error_budget_spent"]
        late = rows[(e.end[rows] == _END[""]) & (e.turn[rows] >= self.max_turns)]
        e.end[late], e.truncated[late] = _END["turn_cap"], True
        e.belief[rows, 1] = np.minimum(e.turn[rows], 255)
        e.belief[rows, 2] = np.minimum(e.errors[rows], 255)

    def _speak(self, e: Episodes, rows: Rows, act: Ints) -> None:
        verdict = self._hear(e, rows, act)
        self.user.answer(e.user, rows, e.turn[rows], _KIND[act], _ARGUMENT[act], verdict)
        self._note_user(e, rows)
        e.end[rows[e.user.closing[rows]]] = _END["user_closed"]

    # -- tools ---------------------------------------------------------------------------------

    def _call(self, e: Episodes, rows: Rows, act: Ints) -> None:
        for tool, at in by_kind(_KIND[act]):
            self._tools[tool](e, rows[at], act[at])

    def _end(self, e: Episodes, rows: Rows, act: Ints) -> None:
        e.end[rows] = _END["agent_ended"]

    def _find(self, e: Episodes, rows: Rows, act: Ints) -> None:
        right = e.heard[rows, EMAIL] == _RIGHT
        e.belief[rows[~right], _REJECTED[EMAIL]] = 1
        rows = rows[right]
        e.belief[rows, cells.FOUND] = 1
        self._authenticate(e, rows)

    def _authenticate(self, e: Episodes, rows: Rows) -> None:
        e.belief[rows, cells.AUTH] = (
            self._factors(e, rows) >= self._parameters(e, rows)["auth_level"]
        )

    @staticmethod
    def _factors(e: Episodes, rows: Rows) -> NDArray[np.uint8]:
        return e.belief[rows, cells.FOUND] + e.belief[rows, cells.VERIFIED]

    def _verify(self, e: Episodes, rows: Rows, act: Ints) -> None:
        right = e.heard[rows, POSTCODE] == _RIGHT
        rows, failed = rows[right], rows[~right]
        e.belief[rows, cells.VERIFIED] = 1
        self._authenticate(e, rows)
        anew = failed[e.belief[failed, _REJECTED[POSTCODE]] == 0]
        e.belief[anew, cells.FAILURES] += e.belief[anew, cells.FAILURES] < 255
        e.belief[anew, _REJECTED[POSTCODE]] = 1

    def _list(self, e: Episodes, rows: Rows, act: Ints) -> None:
        e.belief[rows[:, None], _SEEN] = 1
        e.belief[rows, cells.LISTED] = 1
        self._match(e, rows)

    def _get_stated(self, e: Episodes, rows: Rows, act: Ints) -> None:
        right = e.heard[rows, ORDER] == _RIGHT
        e.belief[rows[~right], _REJECTED[ORDER]] = 1
        self._read(e, rows[right], e.task.pointer[rows[right]])

    def _get(self, e: Episodes, rows: Rows, act: Ints) -> None:
        self._read(e, rows, _POINTER[act])

    def _read(self, e: Episodes, rows: Rows, pointer: Ints) -> None:
        order, parameters = e.task.orders[rows, pointer], self._parameters(e, rows)
        stage, days = self.shop["stage"][order], self.shop["days"][order]
        e.belief[rows, _SEEN[pointer]] = e.belief[rows, _READ[pointer]] = 1
        e.belief[rows, cells.READ_ANY] = 1
        e.belief[rows, _STAGE[pointer, stage]] = 1
        facts = {name: self.shop[name][order] for name in ("category", "amount")}
        facts |= {"stage": stage, "days": days}
        for name, holds in rules.findings(facts, parameters).items():
            e.belief[rows, _READING[name][pointer]] = holds
        self._match(e, rows)

    @staticmethod
    def _match(e: Episodes, rows: Rows) -> None:
        """Which orders in view fit what the customer said of the one that is meant."""
        for k in ORDERS:
            seen = rows[e.belief[rows, _SEEN[k]] > 0]
            meant = e.task.pointer[seen] == k
            item_said, placed_said = (
                e.belief[seen, cells.HEARD_ITEM],
                e.belief[seen, cells.HEARD_PLACED],
            )
            e.belief[seen, cells.ID_MATCH[k]] = meant & (e.heard[seen, ORDER] == _RIGHT)
            e.belief[seen, cells.PLACED_MATCH[k]] = meant & (placed_said > 0)
            e.belief[seen, cells.ITEM_MATCH[k]] = e.task.same_item[seen, k] & (item_said > 0)

    def _write(self, e: Episodes, rows: Rows, act: Ints) -> None:
        again = e.belief[rows, _WRITTEN[_ARGUMENT[act], _POINTER[act]]] > 0
        e.errors[rows[again]] += 1
        rows, act = rows[~again], act[~again]
        write, pointer = _ARGUMENT[act], _POINTER[act]
        parameters = self._parameters(e, rows)
        facts = {
            "factors": self._factors(e, rows),
            "confirmed": e.belief[rows, _CONFIRMED[write, pointer]],
        }
        for code, broken in rules.RULES.breaches("write", facts, parameters).items():
            self._violate(e, rows[broken], code)
        # A task's goal is empty where the policy does not allow what is asked.
        asked_for = e.task.goal[rows] == _bit(write, pointer)
        self._violate(e, rows[~asked_for], "wrote_what_was_not_asked")
        e.diff[rows] |= _bit(write, pointer)
        e.belief[rows, _WRITTEN[write, pointer]] = e.belief[rows, cells.WROTE] = 1
        e.decided_right[rows] |= asked_for

    def _transfer(self, e: Episodes, rows: Rows, act: Ints) -> None:
        e.end[rows] = _END["transferred"]
        e.transferred[rows] = True
        right = e.task.effect[rows] == _EFFECT[TRANSFER]
        e.decided_right[rows] |= right & self._deciding(e, rows)

    @staticmethod
    def _violate(e: Episodes, rows: Rows, code: str) -> None:
        e.violations[rows] |= VIOLATION[code]

    @staticmethod
    def _deciding(e: Episodes, rows: Rows) -> Flags:
        """The customer is authenticated, and the order in question was named and has been read."""
        return (e.belief[rows, cells.AUTH] > 0) & _read_what_is_meant(e, rows)

    # -- hearing -------------------------------------------------------------------------------

    def _hear(self, e: Episodes, rows: Rows, act: Ints) -> Ints:
        """What each act means to its customer."""
        verdict = np.full(len(rows), acts.FINE)
        for kind, at in by_kind(_KIND[act]):
            if kind in self._hearings:
                verdict[at] = self._hearings[kind](e, rows[at], act[at])
        return verdict

    def _hear_question(self, e: Episodes, rows: Rows, act: Ints) -> Ints | int:
        e.belief[rows, _ASKED[_ARGUMENT[act]]] = 1
        return acts.FINE

    def _hear_offer(self, e: Episodes, rows: Rows, act: Ints) -> Ints | int:
        e.belief[rows, _OFFERED[_ARGUMENT[act]]] = 1
        return np.where(e.task.alternative[rows] == _ARGUMENT[act], acts.FINE, acts.WRONG)

    def _hear_fact(self, e: Episodes, rows: Rows, act: Ints) -> Ints | int:
        fact, pointer, meant = _ARGUMENT[act], _POINTER[act], e.task.pointer[rows]
        term = pointer < 0  # a fee or a channel; the other facts are of an order
        read = e.belief[rows, _READ[meant]] & e.belief[rows, cells.HEARD_REASON]
        claimed = ~term | (read > 0)
        self._violate(
            e, rows[claimed & (e.belief[rows, cells.AUTH] == 0)], "disclosed_before_authentication"
        )
        truth = np.where(fact == FACT_FEE, e.task.fee[rows], e.task.channel[rows])
        self._violate(e, rows[claimed & term & (_VALUE[act] != truth)], "told_a_falsehood")
        self._violate(e, rows[~term & (pointer != meant)], "told_of_another_order")
        told = _TOLD[fact, np.where(term, _VALUE[act], pointer)]
        e.belief[rows[claimed], told[claimed]] = 1
        fine = np.where(term | (pointer == meant), acts.FINE, acts.OTHER_OBJECT)
        return np.where(claimed, fine, acts.DOUBTFUL)

    def _hear_confirm(self, e: Episodes, rows: Rows, act: Ints) -> Ints | int:
        write, pointer = _ARGUMENT[act], _POINTER[act]
        fee, channel = (
            e.belief[rows[:, None], _TOLD[fact, :2]].any(axis=1)
            for fact in (FACT_FEE, FACT_CHANNEL)
        )
        verdict = np.select(
            [
                write != _WRITE_OF[e.task.workflow[rows]],
                pointer != e.task.pointer[rows],
                (write == _RETURN) & ~fee,
                (write == _RETURN) & ~channel,
            ],
            [acts.OTHER_REQUEST, acts.OTHER_OBJECT, acts.FEE_UNKNOWN, acts.CHANNEL_UNKNOWN],
            acts.FINE,
        )
        proper = verdict == acts.FINE
        e.asked_to_confirm[rows[proper]] = np.stack([write, pointer], axis=1)[proper]
        return verdict

    def _hear_denial(self, e: Episodes, rows: Rows, act: Ints) -> Ints | int:
        reason, authenticated = _ARGUMENT[act], e.belief[rows, cells.AUTH] > 0
        e.belief[rows, _DENIED[reason]] = 1
        unverified = reason == _UNVERIFIED
        self._violate(e, rows[~unverified & ~authenticated], "disclosed_before_authentication")
        failed = (e.belief[rows, cells.FAILURES] >= 2) & ~authenticated
        grounded = np.where(unverified, failed, self._deciding(e, rows))
        right = grounded & (e.task.refusal[rows] == reason)
        e.decided_right[rows] |= right
        return np.where(right, acts.FINE, acts.WRONG)

    def _hear_report(self, e: Episodes, rows: Rows, act: Ints) -> Ints | int:
        done = (e.diff[rows] > 0) & e.decided_right[rows]
        e.belief[rows, cells.TOLD_DONE] |= done
        self._violate(e, rows[~done], "told_a_falsehood")
        return np.where(done, acts.FINE, acts.WRONG)

    def _note_user(self, e: Episodes, rows: Rows) -> None:
        """Put what the customers said into the belief."""
        said = e.user.acts[rows]
        row, place = np.nonzero(said >= 0)
        act, row = said[row, place], rows[row]  # one by one, in the order they were said
        e.belief[rows, cells.FIRST_SAID :] = 0
        e.belief[row[:, None], _SETS[act]] = 1
        slot, variant = _VARIANTS[act].T
        given = slot >= 0
        e.heard[row[given], slot[given]] = variant[given]
        e.belief[row[given], _REJECTED[slot[given]]] = 0
        affirming = row[act == U["affirm"]]
        write, pointer = e.asked_to_confirm[affirming].T
        proper = write >= 0
        e.belief[affirming[proper], _CONFIRMED[write, pointer][proper]] = 1
        self._match(e, rows[e.belief[rows, cells.FOUND] > 0])

    # -- verdict -------------------------------------------------------------------------------

    def grade(self) -> tuple[Flags, NDArray[np.float64], NDArray[np.float64]]:
        """Success, graded and progress of every row as it stands; each (n,)."""
        e, rows, task = self.episodes, np.arange(self.n), self.episodes.task
        found, pointer = e.belief[:, cells.FOUND] > 0, task.pointer
        unverified, failed = task.refusal == _UNVERIFIED, e.belief[:, cells.FAILURES] >= 2
        authenticated = np.where(unverified, failed, found & (e.belief[:, cells.AUTH] > 0))
        read = np.where(unverified, failed, _read_what_is_meant(e, rows))
        status = e.belief[rows, _TOLD[FACT_STATUS, pointer]] > 0
        eta = e.belief[rows, _TOLD[FACT_ETA, pointer]] > 0
        case = [
            task.effect == _EFFECT[REFUSE],
            task.effect == _EFFECT[TRANSFER],
            task.workflow == rules.STATUS,
        ]
        right, done = e.decided_right, e.belief[:, cells.TOLD_DONE] > 0
        reasons = e.belief[:, _DENIED].sum(axis=1)
        its_offer = e.belief[:, _OFFERED].sum(axis=1) == e.user.knowledge.alternative
        never = reasons == 0
        decided = np.select(
            case, [right & (reasons == 1), right & e.transferred, status | eta], right
        )
        told = np.select(
            case, [e.user.resolved & its_offer, never, status & eta & never], done & never
        )
        reached = np.cumprod([authenticated, read, decided, told], axis=0).sum(axis=0)
        clean = (e.violations == 0) & ((e.diff == 0) | (e.diff == task.goal))
        success, graded, progress = _GRADES[reached, clean.astype(np.intp)].T
        return success > 0, graded, progress


def _read_what_is_meant(e: Episodes, rows: Rows) -> Flags:
    """The order that the customer means was read, and the customer has said which it is."""
    pointer = e.task.pointer[rows]
    named = e.belief[rows, _ID_MATCH[pointer]] | e.belief[rows, _ITEM_MATCH[pointer]]
    meant: Flags = (named & e.belief[rows, _READ[pointer]] & e.belief[rows, cells.FOUND]) > 0
    return meant


def _index(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else -1
