"""The tools of the desk: reads and writes over the shop, each answering in JSON.

A read sets belief cells; a write goes into the episode's diff after the rules have been
asked which obligations it breaks. A tool does what it is told: that a policy forbids a
write is found out by the grading, not by the tool.
"""

from __future__ import annotations

from convgym.domains.customer_service import cells, rules
from convgym.domains.customer_service.records import (
    DeskState,
    deciding,
    difference,
    error_json,
    factors,
    violate,
)
from convgym.domains.customer_service.vocabulary import (
    EMAIL,
    END_CONVERSATION,
    FIND_CUSTOMER,
    GET_ORDER,
    GET_STATED_ORDER,
    LIST_ORDERS,
    ORDER,
    POSTCODE,
    TRANSFER_TO_HUMAN,
    VERIFY_CUSTOMER,
    WRITE_TOOLS,
    WRITES,
)
from convgym.domains.customer_service.world import CATEGORIES, ORDERS_EACH, STAGES, World, date_text
from convgym.engine.acts import Call
from convgym.engine.episode import Episode
from convgym.engine.rules import ALLOW, TRANSFER

UNSTATED, STATED_WRONG, RIGHT = -1, 0, 1
"""`detail` of a verification: a code nobody said, what the customer said, the account's own."""
_RESULT = ("cancelled", "return_created", "address_updated")


class ShopTools:
    """Runs calls against the shop; holds no episode's state."""

    def __init__(self, shop: World) -> None:
        self.shop = shop

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
        if not episode.belief[cells.FOUND]:
            return self.fail(episode, "no customer account is open; call find_customer first")
        if tool == VERIFY_CUSTOMER:
            return self._verify(episode, call.detail)
        if tool == LIST_ORDERS:
            return self._list(episode)
        if tool in (GET_STATED_ORDER, GET_ORDER):
            return self._get(episode, call.pointer)
        return self._write(episode, call)

    def fail(self, episode: Episode, sentence: str) -> str:
        """Charge an error to the budget."""
        episode.errors += 1
        episode.note("error", sentence)
        return error_json(sentence)

    def _find(self, episode: Episode, customer: int) -> str:
        desk: DeskState = episode.desk
        belief = episode.belief
        if customer < 0:
            belief[cells.REJECTED[EMAIL]] = 1
            episode.note("find_customer", "no account")
            return error_json("no account is kept under this e-mail address")
        if desk.customer != customer:
            desk.customer = customer
            desk.asked_to_confirm = (-1, -1)
            forget_account(belief)
        belief[cells.FOUND] = 1
        self._authenticate(episode)
        episode.note("find_customer", str(customer))
        need = "false" if belief[cells.AUTH] else "true"
        return f'{{"customer": "{self.shop.name(customer)}", "needs_verification": {need}}}'

    def _authenticate(self, episode: Episode) -> None:
        needed = episode.desk.parameters["auth_level"]
        episode.belief[cells.AUTH] = factors(episode.belief) >= needed

    def _verify(self, episode: Episode, matches: int) -> str:
        belief = episode.belief
        episode.note("verify_customer", "verified" if matches == RIGHT else "failed")
        if matches == RIGHT:
            belief[cells.VERIFIED] = 1
            self._authenticate(episode)
            return '{"verified": true}'
        # Only what the customer said counts, and the same thing tried again counts once.
        if matches == STATED_WRONG and not belief[cells.REJECTED[POSTCODE]]:
            belief[cells.FAILURES] = min(belief[cells.FAILURES] + 1, 255)
            belief[cells.REJECTED[POSTCODE]] = 1
        return '{"verified": false, "error": "this is not the postcode of the account"}'

    def _list(self, episode: Episode) -> str:
        desk: DeskState = episode.desk
        first = desk.customer * ORDERS_EACH
        for pointer in range(ORDERS_EACH):
            episode.belief[cells.SEEN[pointer]] = 1
        episode.belief[cells.LISTED] = 1
        self.match(episode)
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
            belief[cells.REJECTED[ORDER]] = 1
            episode.note("get_order", "no such order")
            return error_json("this customer has no such order")
        row = desk.customer * ORDERS_EACH + pointer
        facts = rules.order_facts(shop, row)
        belief[cells.SEEN[pointer]] = belief[cells.READ[pointer]] = belief[cells.READ_ANY] = 1
        belief[cells.STAGE[pointer][facts["stage"]]] = 1
        for name, holds in rules.findings(facts, desk.parameters).items():
            belief[cells.READING[name][pointer]] = holds
        self.match(episode)
        episode.note("get_order", shop.order_id(row))
        delivered = facts["days"] >= 0
        day = "delivered_on" if delivered else "expected_on"
        return (
            f'{{"handle": "order:{pointer + 1}", "order": "{shop.order_id(row)}", '
            f'"item": "{shop.item_name(row)}", "category": "{CATEGORIES[facts["category"]]}", '
            f'"amount": {facts["amount"] / 100:.2f}, "status": "{STAGES[facts["stage"]]}", '
            f'"{day}": "{date_text(shop.due[row])}", "placed": "{date_text(-shop.placed[row])}"'
            + (f', "days_since_delivery": {facts["days"]}}}' if delivered else "}")
        )

    def match(self, episode: Episode) -> None:
        """Which orders in view fit what the customer said of the one that is meant."""
        belief, task, desk = episode.belief, episode.task, episode.desk
        if desk.customer != task.customer:
            return
        first = desk.customer * ORDERS_EACH
        item = self.shop.item[task.order]
        for pointer in range(ORDERS_EACH):
            if belief[cells.SEEN[pointer]]:
                meant = pointer == task.pointer
                belief[cells.ID_MATCH[pointer]] = meant and desk.heard[ORDER] == 1
                belief[cells.PLACED_MATCH[pointer]] = meant and belief[cells.HEARD_PLACED]
                belief[cells.ITEM_MATCH[pointer]] = (
                    self.shop.item[first + pointer] == item and belief[cells.HEARD_ITEM]
                )

    def _write(self, episode: Episode, call: Call) -> str:
        desk, task, belief = episode.desk, episode.task, episode.belief
        write, pointer = call.argument, call.pointer
        if pointer < 0:
            return self.fail(episode, "this customer has no such order")
        if belief[cells.WRITTEN[write][pointer]]:
            return self.fail(episode, "this change was made before")
        row = desk.customer * ORDERS_EACH + pointer
        facts = {
            "factors": factors(belief),
            "confirmed": belief[cells.CONFIRMED[write][pointer]],
        }
        for code, broken in rules.RULES.breaches("write", facts, desk.parameters).items():
            if broken:
                violate(episode, code)
        asked_for = (
            WRITES[write] == rules.WORKFLOWS[task.workflow]
            and row == task.order
            and task.decision.effect == ALLOW
            and call.detail == (task.reason if WRITES[write] == "return" else 1)
        )
        if not asked_for:
            violate(episode, "wrote_what_was_not_asked")
        episode.diff.update(difference(write, row, call.detail))
        belief[cells.WRITTEN[write][pointer]] = belief[cells.WROTE] = 1
        desk.decided_right |= asked_for
        order_id = self.shop.order_id(row)
        episode.note(WRITE_TOOLS[write], order_id)
        return f'{{"order": "{order_id}", "{_RESULT[write]}": true}}'

    def _transfer(self, episode: Episode) -> str:
        task = episode.task
        episode.end = "transferred"
        episode.desk.transferred = True
        right = task.decision.effect == TRANSFER and deciding(episode)
        episode.desk.decided_right |= right
        episode.note("transfer_to_human", "right" if right else "wrong")
        return '{"transferred": true}'


def forget_account(belief: bytearray) -> None:
    """Another account is opened: what was seen of the one before is out of view."""
    for cell in (cells.VERIFIED, cells.AUTH, cells.LISTED, cells.READ_ANY, *cells.OF_ACCOUNT):
        belief[cell] = 0
