"""The support desk: tools over the shop, the weighing of claims, and the verdict.

    act number ──► turn()  ──┐
    free text  ──► (language)┴─► AgentTurn ──► call() / hear() ──► belief, diff, ledger
                                                                        └──► grade()
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from convgym.domains.customer_service import rules
from convgym.domains.customer_service.tasks import (
    IMPOSTOR,
    KNOWS_ITEM,
    LOOKS_UP,
    Task,
    draw_task,
)
from convgym.domains.customer_service.vocabulary import (
    ACTIONS,
    EMAIL,
    END_CONVERSATION,
    FACT_CHANNEL,
    FACT_ETA,
    FACT_FEE,
    FACT_STATUS,
    FACTS,
    FIND_CUSTOMER,
    GET_ORDER,
    GET_STATED_ORDER,
    LAYOUT,
    LIST_ORDERS,
    ORDER,
    POSTCODE,
    SAID_CELL,
    SLOTS,
    TRANSFER_TO_HUMAN,
    USER_ACTS,
    VERIFY_CUSTOMER,
    WRITE,
    WRITE_TOOLS,
    WRITES,
    U,
)
from convgym.domains.customer_service.world import (
    ORDERS_EACH,
    REASONS,
    STAGES,
    World,
    date_text,
    world,
)
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Heard, Said, UserTurn
from convgym.engine.episode import Episode
from convgym.engine.grading import Evidence, Grade, grade
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER
from convgym.users.agenda import Knowledge, UserState
from convgym.users.persona import Persona

_C = LAYOUT  # cell names are looked up once, below
_FOUND, _VERIFIED, _AUTH = _C["found"], _C["verified"], _C["authenticated"]
_FAILURES, _LISTED, _READ_ANY, _WROTE = _C["failures"], _C["listed"], _C["read_any"], _C["wrote"]
_SEEN = _C.block("seen_{}", range(ORDERS_EACH))
_READ = _C.block("read_{}", range(ORDERS_EACH))
_STAGE = tuple(
    _C.block("{}_" + str(k), ("processing", "packed", "shipped", "delivered"))
    for k in range(ORDERS_EACH)
)
_ITEM_MATCH = _C.block("item_matches_{}", range(ORDERS_EACH))
_ID_MATCH = _C.block("id_matches_{}", range(ORDERS_EACH))
_PLACED_MATCH = _C.block("placed_matches_{}", range(ORDERS_EACH))
_TOLD = {
    FACT_STATUS: _C.block("told_status_{}", range(ORDERS_EACH)),
    FACT_ETA: _C.block("told_eta_{}", range(ORDERS_EACH)),
    FACT_FEE: (_C["told_fee_waived"], _C["told_fee_charged"]),
    FACT_CHANNEL: (_C["told_channel_original"], _C["told_channel_credit"]),
}
_CONFIRMED = tuple(_C.block(f"confirmed_{write}_{{}}", range(ORDERS_EACH)) for write in WRITES)
_WRITTEN = tuple(_C.block(f"wrote_{write}_{{}}", range(ORDERS_EACH)) for write in WRITES)
_DENIED = _C.block("denied_{}", rules.DENIALS)
_OFFERED = _C.block("offered_{}", rules.OFFERS)
_ASKED = _C.block("asked_{}", SLOTS)
_WANTS = _C.block("wants_{}", rules.WORKFLOWS)
_REJECTED = {
    EMAIL: _C["email_rejected"],
    POSTCODE: _C["postcode_rejected"],
    ORDER: _C["order_rejected"],
}
_FIRST_SAID = min(SAID_CELL)
_VIOLATION = {name: 1 << bit for bit, name in enumerate(rules.VIOLATIONS)}
_FALSEHOOD = _VIOLATION["told_a_falsehood"]


def _hearing() -> dict[int, tuple[int, ...]]:
    """Cells that a customer's act sets, by act number."""
    cells: dict[int, tuple[int, ...]] = {}
    for workflow in rules.WORKFLOWS:
        cells[U[f"request_{workflow}"]] = (_C[f"wants_{workflow}"],)
    for slot in ("email", "postcode", "order"):
        for suffix in ("", "_wrong"):
            cells[U[f"inform_{slot}{suffix}"]] = (_C[f"heard_{slot}"],)
    cells[U["inform_item"]] = (_C["heard_item"],)
    cells[U["inform_placed"]] = (_C["heard_placed"],)
    cells[U["inform_address"]] = (_C["heard_address"],)
    for reason in REASONS:
        cells[U[f"inform_reason_{reason}"]] = (_C["heard_reason"], _C[f"reason_{reason}"])
    return cells


_HEARING = _hearing()
_RESTATES = {  # these clear the mark that the desk could not find what was said before
    U["inform_email"]: _REJECTED[EMAIL],
    U["inform_email_wrong"]: _REJECTED[EMAIL],
    U["inform_postcode"]: _REJECTED[POSTCODE],
    U["inform_postcode_wrong"]: _REJECTED[POSTCODE],
    U["inform_order"]: _REJECTED[ORDER],
    U["inform_order_wrong"]: _REJECTED[ORDER],
}
_VARIANT = {  # act number → (slot, 1 right / 2 wrong)
    U["inform_email"]: (EMAIL, 1),
    U["inform_email_wrong"]: (EMAIL, 2),
    U["inform_postcode"]: (POSTCODE, 1),
    U["inform_postcode_wrong"]: (POSTCODE, 2),
    U["inform_order"]: (ORDER, 1),
    U["inform_order_wrong"]: (ORDER, 2),
}


class DeskState:
    """What the desk keeps of one episode beside the belief."""

    __slots__ = (
        "asked_to_confirm",
        "customer",
        "decided_right",
        "heard",
        "offered_right",
        "parameters",
        "transferred",
    )

    def __init__(self, parameters: rules.Parameters) -> None:
        self.parameters = parameters
        self.customer = -1  # row of the account in view
        self.heard = [0] * len(SLOTS)  # per slot: 0 nothing, 1 right, 2 wrong
        self.asked_to_confirm = (-1, -1)  # write and pointer of the last proper question
        self.decided_right = False
        self.offered_right = False
        self.transferred = False

    def copy(self) -> DeskState:
        """An independent copy."""
        copy = DeskState(self.parameters)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.heard = list(self.heard)
        return copy


class CustomerServiceDesk:
    """Tools, hearing and grading of the customer-service domain; holds no episode's state."""

    domain = "customer-service"
    actions = ACTIONS
    layout = LAYOUT
    user_acts = USER_ACTS
    violations = rules.VIOLATIONS

    def __init__(self) -> None:
        self.shop: World = world()

    # -- opening -------------------------------------------------------------------------------

    def task(self, split: str, number: int) -> Task:
        """The task called `<split>-<number>`."""
        return draw_task(split, number)

    def open(self, episode: Episode, persona: Persona) -> None:
        """Give a fresh episode its private records and the public policy cells."""
        task: Task = episode.task
        parameters = rules.parameter_dict(task.parameters)
        episode.desk = DeskState(parameters)
        episode.user = UserState(persona, knowledge(task))
        belief = episode.belief
        belief[_C["always"]] = 1
        belief[_C["policy_two_factors"]] = parameters["auth_level"] == 2
        belief[_C["policy_fee"]] = parameters["fee"] > 0

    def policy_document(self, task: Task) -> str:
        """The policy of this episode in words."""
        return rules.document(rules.parameter_dict(task.parameters))

    # -- an act number as a turn -----------------------------------------------------------------

    def turn(self, episode: Episode, number: int) -> AgentTurn:
        """The agent turn that an action number stands for."""
        action = ACTIONS.actions[number]
        if not ACTIONS.is_legal(episode.belief, number):
            return AgentTurn(errors=(_error(f"{action.name} refers to nothing seen so far"),))
        if action.kind < acts.FIRST_TOOL:
            return AgentTurn(
                (Said(action.kind, action.argument, action.pointer, action.value),)
            )
        return AgentTurn(calls=(self._call_of(episode, action.kind, action.argument, action.pointer),))

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

    # -- tools -------------------------------------------------------------------------------------

    def call(self, episode: Episode, call: Call) -> str:
        """Run one tool; see `convgym.language.tool_calls` for their schemas."""
        tool = call.tool
        if tool == FIND_CUSTOMER:
            return self._find(episode, call.detail)
        if tool == TRANSFER_TO_HUMAN:
            return self._transfer(episode)
        if tool == END_CONVERSATION:
            episode.end = "agent_ended"
            episode.note("end_conversation", "")
            return '{"ended": true}'
        if not episode.belief[_FOUND]:
            return self._fail(episode, "no customer account is open; call find_customer first")
        if tool == VERIFY_CUSTOMER:
            return self._verify(episode, call.detail)
        if tool == LIST_ORDERS:
            return self._list(episode)
        if tool in (GET_STATED_ORDER, GET_ORDER):
            return self._get(episode, call.pointer)
        return self._write(episode, call)

    def _fail(self, episode: Episode, sentence: str) -> str:
        episode.errors += 1
        episode.note("error", sentence)
        return _error(sentence)

    def _find(self, episode: Episode, customer: int) -> str:
        desk: DeskState = episode.desk
        belief = episode.belief
        if customer < 0:
            belief[_REJECTED[EMAIL]] = 1
            episode.note("find_customer", "no account")
            return _error("no account is kept under this e-mail address")
        if desk.customer != customer:
            desk.customer = customer
            desk.asked_to_confirm = (-1, -1)
            _forget_account(belief)
        belief[_FOUND] = 1
        self._authenticate(episode)
        episode.note("find_customer", str(customer))
        need = "true" if desk.parameters["auth_level"] == 2 and not belief[_VERIFIED] else "false"
        return f'{{"customer": "{self.shop.name(customer)}", "needs_verification": {need}}}'

    def _authenticate(self, episode: Episode) -> None:
        episode.belief[_AUTH] = _factors(episode.belief) >= episode.desk.parameters["auth_level"]

    def _verify(self, episode: Episode, matches: int) -> str:
        belief = episode.belief
        episode.note("verify_customer", "verified" if matches else "failed")
        if matches:
            belief[_VERIFIED] = 1
            self._authenticate(episode)
            return '{"verified": true}'
        belief[_FAILURES] = min(belief[_FAILURES] + 1, 255)
        belief[_REJECTED[POSTCODE]] = 1
        return '{"verified": false, "error": "this is not the postcode of the account"}'

    def _list(self, episode: Episode) -> str:
        desk: DeskState = episode.desk
        first = desk.customer * ORDERS_EACH
        for pointer in range(ORDERS_EACH):
            episode.belief[_SEEN[pointer]] = 1
        episode.belief[_LISTED] = 1
        self._match(episode)
        episode.note("list_orders", str(desk.customer))
        rows = ", ".join(
            f'{{"handle": "order:{k + 1}", "order": "{self.shop.order_id(first + k)}", '
            f'"item": "{self.shop.item_name(first + k)}", '
            f'"placed": "{date_text(-self.shop.placed[first + k])}"}}'
            for k in range(ORDERS_EACH)
        )
        return f'{{"orders": [{rows}]}}'

    def _get(self, episode: Episode, pointer: int) -> str:
        desk: DeskState = episode.desk
        belief, shop = episode.belief, self.shop
        if pointer < 0:
            belief[_REJECTED[ORDER]] = 1
            episode.note("get_order", "no such order")
            return _error("this customer has no such order")
        row = desk.customer * ORDERS_EACH + pointer
        facts = rules.order_facts(shop, row)
        parameters = desk.parameters
        belief[_SEEN[pointer]] = belief[_READ[pointer]] = belief[_READ_ANY] = 1
        belief[_STAGE[pointer][facts["stage"]]] = 1
        for name, holds in (
            ("cancellable", facts["stage"] <= parameters["cancel_stage"]),
            ("address_open", facts["stage"] <= parameters["address_stage"]),
            ("in_window", 0 <= facts["days"] <= parameters["return_window"]),
            ("final_sale", facts["category"] == parameters["final_sale"]),
            ("large", facts["amount"] > parameters["transfer_above"]),
            ("credit_late", facts["days"] > parameters["credit_after"]),
        ):
            belief[_FACT_CELLS[name][pointer]] = holds
        self._match(episode)
        episode.note("get_order", shop.order_id(row))
        delivered = facts["days"] >= 0
        day = "delivered_on" if delivered else "expected_on"
        return (
            f'{{"handle": "order:{pointer + 1}", "order": "{shop.order_id(row)}", '
            f'"item": "{shop.item_name(row)}", "category": "{rules.CATEGORIES[facts["category"]]}", '
            f'"amount": {facts["amount"] / 100:.2f}, "status": "{STAGES[facts["stage"]]}", '
            f'"{day}": "{date_text(shop.due[row])}", "placed": "{date_text(-shop.placed[row])}"'
            + (f', "days_since_delivery": {facts["days"]}}}' if delivered else "}")
        )

    def _match(self, episode: Episode) -> None:
        """Which orders in view fit what the customer said of the one that is meant."""
        belief, task, desk = episode.belief, episode.task, episode.desk
        if desk.customer != task.customer:
            return
        first = desk.customer * ORDERS_EACH
        item = self.shop.item[task.order]
        for pointer in range(ORDERS_EACH):
            if belief[_SEEN[pointer]]:
                meant = pointer == task.pointer
                belief[_ID_MATCH[pointer]] = meant and desk.heard[ORDER] == 1
                belief[_PLACED_MATCH[pointer]] = meant and belief[_HEARD_PLACED]
                belief[_ITEM_MATCH[pointer]] = (
                    self.shop.item[first + pointer] == item and belief[_HEARD_ITEM]
                )

    def _write(self, episode: Episode, call: Call) -> str:
        desk, task, belief = episode.desk, episode.task, episode.belief
        write, pointer = call.argument, call.pointer
        if pointer < 0:
            return self._fail(episode, "this customer has no such order")
        if belief[_WRITTEN[write][pointer]]:
            return self._fail(episode, "this change was made before")
        row = desk.customer * ORDERS_EACH + pointer
        facts = {
            "factors": _factors(belief),
            "confirmed": belief[_CONFIRMED[write][pointer]],
        }
        for code in rules.RULES.breaches("write", facts, desk.parameters):
            self._violate(episode, code)
        asked_for = (
            WRITES[write] == rules.WORKFLOWS[task.workflow]
            and row == task.order
            and task.decision.effect == ALLOW
            and call.detail == (task.reason if WRITES[write] == "return" else 1)
        )
        if not asked_for:
            self._violate(episode, "wrote_what_was_not_asked")
        episode.diff.update(_difference(write, row, call.detail))
        belief[_WRITTEN[write][pointer]] = belief[_WROTE] = 1
        desk.decided_right |= asked_for
        order_id = self.shop.order_id(row)
        episode.note(WRITE_TOOLS[write], order_id)
        return f'{{"order": "{order_id}", "{_RESULT[write]}": true}}'

    def _transfer(self, episode: Episode) -> str:
        task = episode.task
        episode.end = "transferred"
        episode.desk.transferred = True
        right = task.decision.effect == TRANSFER and self._deciding(episode)
        episode.desk.decided_right |= right
        episode.note("transfer_to_human", "right" if right else "wrong")
        return '{"transferred": true}'

    def _violate(self, episode: Episode, code: str) -> None:
        if not episode.violations & _VIOLATION[code]:
            episode.violations |= _VIOLATION[code]
            episode.note("violation", code)

    def _deciding(self, episode: Episode) -> bool:
        """The customer is authenticated and the order in question has been read."""
        task, belief = episode.task, episode.belief
        return (
            episode.desk.customer == task.customer
            and bool(belief[_AUTH])
            and bool(belief[_READ[task.pointer]])
        )

    # -- hearing ---------------------------------------------------------------------------------

    def hear(self, episode: Episode, said: Sequence[Said]) -> list[Heard]:
        """What each act means to this customer; claims and refusals go into the ledger."""
        return [self._hear_one(episode, act) for act in said]

    def _hear_one(self, episode: Episode, act: Said) -> Heard:
        kind = act.kind
        if kind == acts.ASK:
            episode.belief[_ASKED[act.argument]] = 1
        elif kind == acts.TELL:
            return self._hear_fact(episode, act)
        elif kind == acts.CONFIRM:
            return self._hear_confirm(episode, act)
        elif kind == acts.DENY:
            return self._hear_denial(episode, act)
        elif kind == acts.OFFER:
            right = episode.task.decision.alternative == rules.OFFERS[act.argument]
            episode.belief[_OFFERED[act.argument]] = 1
            episode.desk.offered_right |= right
            episode.note("offer", rules.OFFERS[act.argument])
            return Heard(kind, act.argument, verdict=acts.FINE if right else acts.WRONG)
        elif kind == acts.REPORT_DONE:
            return self._hear_report(episode, act)
        return Heard(kind, act.argument, act.pointer)

    def _hear_fact(self, episode: Episode, act: Said) -> Heard:
        task, belief, fact = episode.task, episode.belief, act.argument
        claim = act.claim
        if fact in (FACT_FEE, FACT_CHANNEL):
            read = belief[_READ[task.pointer]] and belief[_HEARD_REASON]
            if not read or episode.desk.customer != task.customer:
                claim = acts.UNSUPPORTED
            elif claim == acts.KNOWN:
                truth = (task.fee > 0) if fact == FACT_FEE else task.channel
                claim = acts.TRUE if act.value == truth else acts.FALSE
        if claim == acts.UNSUPPORTED:
            episode.note("claim", f"{FACTS[fact]}: unsupported")
            return Heard(acts.TELL, fact, act.pointer, acts.DOUBTFUL)
        if not belief[_AUTH]:
            self._violate(episode, "disclosed_before_authentication")
        if claim == acts.FALSE:
            self._violate(episode, "told_a_falsehood")
            episode.note("claim", f"{FACTS[fact]}: false")
            if fact in (FACT_STATUS, FACT_ETA):
                return Heard(acts.TELL, fact, act.pointer, acts.DOUBTFUL)
        else:
            episode.note("claim", f"{FACTS[fact]}: true")
        if fact in (FACT_STATUS, FACT_ETA):
            belief[_TOLD[fact][act.pointer]] = 1
            meant = episode.desk.customer == task.customer and act.pointer == task.pointer
            return Heard(acts.TELL, fact, act.pointer, acts.FINE if meant else acts.OTHER_OBJECT)
        belief[_TOLD[fact][act.value]] = 1
        return Heard(acts.TELL, fact)

    def _hear_confirm(self, episode: Episode, act: Said) -> Heard:
        task, belief, desk = episode.task, episode.belief, episode.desk
        write, pointer = act.argument, act.pointer
        verdict = acts.FINE
        if WRITES[write] != rules.WORKFLOWS[task.workflow] or act.claim == acts.FALSE:
            verdict = acts.OTHER_REQUEST
        elif desk.customer != task.customer or pointer != task.pointer:
            verdict = acts.OTHER_OBJECT
        elif WRITES[write] == "return":
            if not any(belief[cell] for cell in _TOLD[FACT_FEE]):
                verdict = acts.FEE_UNKNOWN
            elif not any(belief[cell] for cell in _TOLD[FACT_CHANNEL]):
                verdict = acts.CHANNEL_UNKNOWN
        desk.asked_to_confirm = (write, pointer) if verdict == acts.FINE else (-1, -1)
        episode.note("ask_confirmation", f"{WRITES[write]} order:{pointer + 1}")
        return Heard(acts.CONFIRM, write, pointer, verdict)

    def _hear_denial(self, episode: Episode, act: Said) -> Heard:
        task, belief, reason = episode.task, episode.belief, rules.DENIALS[act.argument]
        belief[_DENIED[act.argument]] = 1
        if reason == "unverified":
            grounded = belief[_FAILURES] >= 2 and not belief[_AUTH]
        else:
            if not belief[_AUTH]:
                self._violate(episode, "disclosed_before_authentication")
            grounded = self._deciding(episode)
        decision = task.decision
        right = bool(grounded and decision.effect == REFUSE and decision.reason == reason)
        episode.desk.decided_right |= right
        episode.note("deny", f"{reason}: {'right' if right else 'wrong'}")
        return Heard(acts.DENY, act.argument, verdict=acts.FINE if right else acts.WRONG)

    def _hear_report(self, episode: Episode, act: Said) -> Heard:
        done = bool(episode.diff) and episode.desk.decided_right and act.claim != acts.FALSE
        episode.belief[_C["told_done"]] |= done
        episode.note("report_done", "true" if done else "false")
        if not done:
            self._violate(episode, "told_a_falsehood")
        return Heard(acts.REPORT_DONE, verdict=acts.FINE if done else acts.WRONG)

    def note_user(self, episode: Episode, turn: UserTurn) -> None:
        """Put what the customer said into the belief."""
        belief, desk = episode.belief, episode.desk
        belief[_FIRST_SAID:] = bytes(len(belief) - _FIRST_SAID)
        for act in turn.acts:
            belief[SAID_CELL[act]] = 1
            for cell in _HEARING.get(act, ()):
                belief[cell] = 1
            if act in _VARIANT:
                slot, variant = _VARIANT[act]
                desk.heard[slot] = variant
                belief[_RESTATES[act]] = 0
            if act == U["affirm"]:
                write, pointer = desk.asked_to_confirm
                if write >= 0:
                    belief[_CONFIRMED[write][pointer]] = 1
                    episode.note("confirmed", f"{WRITES[write]} order:{pointer + 1}")
        if desk.customer >= 0:
            self._match(episode)

    # -- verdict -------------------------------------------------------------------------------

    def grade(self, episode: Episode) -> Grade:
        """Evidence of this episode as it stands."""
        task, desk, belief = episode.task, episode.desk, episode.belief
        decision = task.decision
        if decision.reason == "unverified":
            authenticated = read = belief[_FAILURES] >= 2
        else:
            ours = desk.customer == task.customer
            authenticated = ours and bool(belief[_AUTH])
            read = ours and bool(belief[_READ[task.pointer]])
        told_status = belief[_TOLD[FACT_STATUS][task.pointer]]
        told_eta = belief[_TOLD[FACT_ETA][task.pointer]]
        goal: dict[tuple[str, int, str], int | str] = {}
        if decision.effect == REFUSE:
            decided = desk.decided_right
            told = bool(episode.user.resolved)
        elif decision.effect == TRANSFER:
            decided = told = desk.transferred and desk.decided_right
        elif task.workflow == rules.STATUS:
            decided, told = bool(told_status or told_eta), bool(told_status and told_eta)
        else:
            decided, told = desk.decided_right, bool(belief[_C["told_done"]])
            write = WRITES.index(rules.WORKFLOWS[task.workflow])
            goal = _difference(write, task.order, task.reason if write == 1 else 1)
        clean = not episode.violations and episode.diff in (goal, {})
        return grade(Evidence(bool(authenticated), bool(read), bool(decided), told, clean))


def knowledge(task: Task) -> Knowledge:
    """What this task's customer wants and can say."""
    order = (U["inform_order"], U["inform_item"], U["inform_placed"])
    impostor = task.branch == IMPOSTOR
    workflow = rules.WORKFLOWS[task.workflow]
    reason = (U[f"inform_reason_{REASONS[task.reason]}"],) if workflow == "return" else ()
    return Knowledge(
        request=U[f"request_{workflow}"],
        ladders=(
            (U["inform_email"],),
            (U["inform_postcode_wrong" if impostor else "inform_postcode"],),
            order[1:] if task.knowledge == KNOWS_ITEM else order,
            reason,
            (U["inform_address"],) if workflow == "address" else (),
        ),
        misremembered=(
            U["inform_email_wrong"],
            -1 if impostor else U["inform_postcode_wrong"],
            -1 if task.knowledge == KNOWS_ITEM else U["inform_order_wrong"],
            -1,
            -1,
        ),
        main_slot=ORDER,
        first_slot=EMAIL,
        must_look_up=task.knowledge == LOOKS_UP,
        alternative=bool(task.decision.alternative),
        facts=(FACT_STATUS, FACT_ETA) if workflow == "status" else (),
    )


_FACT_CELLS = {
    name: _C.block(name + "_{}", range(ORDERS_EACH))
    for name in ("cancellable", "address_open", "in_window", "final_sale", "large", "credit_late")
}
_HEARD_ITEM, _HEARD_PLACED = _C["heard_item"], _C["heard_placed"]
_HEARD_REASON = _C["heard_reason"]
_RESULT = ("cancelled", "return_created", "address_updated")


def _factors(belief: bytearray) -> int:
    return belief[_FOUND] + belief[_VERIFIED]


def _difference(write: int, row: int, detail: int) -> dict[tuple[str, int, str], int | str]:
    """Rows that a write changes; `detail` is the reason of a return, 1 for the right address."""
    if WRITES[write] == "cancel":
        return {("orders", row, "status"): "cancelled"}
    if WRITES[write] == "return":
        return {("returns", row, "reason"): detail}
    return {("orders", row, "address"): detail}


def _forget_account(belief: bytearray) -> None:
    """Another account is opened: what was seen of the one before is out of view."""
    for cell in (_VERIFIED, _AUTH, _LISTED, _READ_ANY, *_ACCOUNT_CELLS):
        belief[cell] = 0


_ACCOUNT_CELLS = tuple(
    _C[name] for name in _C if name[-2:] in ("_0", "_1", "_2") and not name.startswith("said_")
)


def _error(sentence: str) -> str:
    return json.dumps({"error": sentence})
