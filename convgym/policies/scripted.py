"""The ladder of scripted agents: random < keyword < slot-filling < planner ≤ oracle.

Each is a function of what `reset` and `step` return, the belief and the mask, and of
nothing else. The ladder measures a task's difficulty and makes behaviour data; the
oracle shows that every task can be solved with what can be obtained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.customer_service.rules import WORKFLOWS
from convgym.domains.customer_service.vocabulary import ACTIONS, LAYOUT, ORDERS, QUESTIONS
from convgym.policies.policy import ActPolicy, Probabilities, belief_of


class Sight:
    """A belief row, read by the names of its cells."""

    __slots__ = ("row",)

    def __init__(self, row: NDArray[np.float32]) -> None:
        self.row = row

    def __call__(self, cell: str) -> bool:
        return self.row[LAYOUT[cell]] > 0

    def orders(self, pattern: str) -> list[int]:
        """Pointers k for which the cell `pattern_k` is set."""
        return [k for k in ORDERS if self.row[LAYOUT[f"{pattern}_{k}"]] > 0]

    def workflow(self) -> str:
        """What the customer wants; empty while unknown."""
        return next((name for name in WORKFLOWS if self(f"wants_{name}")), "")


class ScriptedPolicy(ActPolicy):
    """Chooses one act by rule; with probability `noise` a uniformly random legal one."""

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.noise = noise

    def choose(self, see: Sight) -> str:
        """Name of the act to do."""
        raise NotImplementedError

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """(1 − noise) on the chosen act, the rest spread over the legal ones."""
        legal = action_masks.astype(np.float64)
        probabilities = self.noise * legal / legal.sum()
        chosen = ACTIONS[self.choose(Sight(belief_of(observation)))]
        if not legal[chosen]:
            return legal / legal.sum()
        probabilities[chosen] += 1.0 - self.noise
        return probabilities


class RandomPolicy(ActPolicy):
    """Uniform over the legal acts."""

    name = "random"

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """1 / number of legal acts."""
        legal = action_masks.astype(np.float64)
        return legal / legal.sum()


class KeywordPolicy(ScriptedPolicy):
    """Answers the newest words only: no plan, no second factor, no second order."""

    name = "keyword"

    def choose(self, see: Sight) -> str:
        """A reflex for what was said last."""
        read = see.orders("read")
        if read:
            k = read[0]
            if see("wants_status"):
                return f"inform_eta_{k}" if see(f"told_status_{k}") else f"inform_status_{k}"
            if see("wants_cancel"):
                return f"cancel_order_{k}" if see("said_affirm") else f"confirm_cancel_{k}"
            return "apologise"
        if see("found"):
            return "get_stated_order" if see("heard_order") else "ask_order"
        if see("said_inform_email"):
            return "find_customer"
        return "ask_email" if see.workflow() else "ask_intent"


class SlotFillingPolicy(ScriptedPolicy):
    """Collects what a form needs, then does what was asked; never refuses anything."""

    name = "slot-filling"

    def choose(self, see: Sight) -> str:
        """The first empty slot, else the deed."""
        workflow = see.workflow()
        if not workflow:
            return "ask_intent"
        if not see("found"):
            return "find_customer" if see("heard_email") else "ask_email"
        if see("policy_two_factors") and not see("verified"):
            return "verify_customer" if see("heard_postcode") else "ask_postcode"
        if not (see("heard_order") or see("heard_item")):
            return "ask_order"
        if not see("listed"):
            return "list_orders"
        matches = see.orders("id_matches") or see.orders("item_matches")
        if not matches:
            return "ask_order"
        k = matches[0]
        if not see(f"read_{k}"):
            return f"get_order_{k}"
        if workflow == "status":
            return f"inform_eta_{k}" if see(f"told_status_{k}") else f"inform_status_{k}"
        if workflow == "return" and not see("heard_reason"):
            return "ask_reason"
        if workflow == "address" and not see("heard_address"):
            return "ask_address"
        if see("said_ask_fee"):
            return "inform_fee_charged" if see("policy_fee") else "inform_fee_waived"
        if see("said_ask_channel"):
            return "inform_channel_original"
        return _carry_out(see, workflow, k)


class OraclePolicy(ScriptedPolicy):
    """Follows the policy document to the letter and recovers from every slip."""

    name = "oracle"
    recovers = True

    def choose(self, see: Sight) -> str:
        """Identify, locate, read, then what the rules say."""
        if self.recovers and any(see(f"said_{question}") for question in QUESTIONS):
            return "explain"
        workflow = see.workflow()
        if not workflow:
            return "ask_intent"
        step = self._identify(see)
        if step:
            return step
        located = self._locate(see)
        if isinstance(located, str):
            return located
        if not see(f"read_{located}"):
            return f"get_order_{located}"
        return self._serve(see, workflow, located)

    def _identify(self, see: Sight) -> str:
        if not see("found"):
            stale = see("email_rejected") and self.recovers
            return "find_customer" if see("heard_email") and not stale else "ask_email"
        if see("policy_two_factors") and not see("verified"):
            if see.row[LAYOUT["failures"]] >= 1.0:
                return "deny_unverified"
            usable = see("heard_postcode") and not see("postcode_rejected")
            return "verify_customer" if usable else "ask_postcode"
        return ""

    def _locate(self, see: Sight) -> int | str:
        by_id = see.orders("id_matches")
        if by_id:
            return by_id[0]
        if see("heard_order") and not see("order_rejected"):
            return "get_stated_order"
        if not see("heard_item"):
            return "ask_order"
        if not see("listed"):
            return "list_orders"
        matches = see.orders("item_matches")
        if len(matches) > 1 and self.recovers:
            exact = see.orders("placed_matches")
            return exact[0] if exact else "ask_order"
        return matches[0]

    def _serve(self, see: Sight, workflow: str, k: int) -> str:
        if workflow == "status":
            return f"inform_eta_{k}" if see(f"told_status_{k}") else f"inform_status_{k}"
        if workflow == "cancel":
            if not see(f"cancellable_{k}"):
                return self._refuse(see, "not_cancellable", "return_later")
            return _carry_out(see, workflow, k)
        if workflow == "address":
            if not see(f"address_open_{k}"):
                return self._refuse(see, "already_shipped", "pickup")
            return _carry_out(see, workflow, k) if see("heard_address") else "ask_address"
        return self._serve_return(see, k)

    def _serve_return(self, see: Sight, k: int) -> str:
        if not see(f"delivered_{k}"):
            return self._refuse(see, "not_delivered", "")
        if see(f"final_sale_{k}"):
            return self._refuse(see, "final_sale", "")
        if not see(f"in_window_{k}"):
            return self._refuse(see, "outside_window", "store_credit")
        if see(f"large_{k}"):
            return "transfer_to_human"
        if not see("heard_reason"):
            return "ask_reason"
        if not (see("told_fee_charged") or see("told_fee_waived")):
            blameless = see("reason_damaged") or see("reason_wrong_item")
            charged = see("policy_fee") and not blameless
            return "inform_fee_charged" if charged else "inform_fee_waived"
        if not (see("told_channel_original") or see("told_channel_credit")):
            late = see(f"credit_late_{k}")
            return "inform_channel_credit" if late else "inform_channel_original"
        return _carry_out(see, "return", k)

    def _refuse(self, see: Sight, reason: str, offer: str) -> str:
        """Refuse, offer what there is, and stand by it when the customer disputes it."""
        if not see(f"denied_{reason}"):
            return f"deny_{reason}"
        if offer and (self.recovers or see("said_ask_alternative")):
            return f"offer_{offer}"
        return f"deny_{reason}" if self.recovers else "apologise"


class PlannerPolicy(OraclePolicy):
    """The oracle's plan without its recoveries: one try, the first match, no persistence."""

    name = "planner"
    recovers = False


def _carry_out(see: Sight, workflow: str, k: int) -> str:
    """Confirm, write, report, for a request that may be granted."""
    tool = {"cancel": "cancel_order", "return": "create_return", "address": "update_address"}
    if see(f"wrote_{workflow}_{k}"):
        return "close" if see("told_done") else "report_done"
    if see(f"confirmed_{workflow}_{k}"):
        return f"{tool[workflow]}_{k}"
    return f"confirm_{workflow}_{k}"


LADDER = (RandomPolicy, KeywordPolicy, SlotFillingPolicy, PlannerPolicy, OraclePolicy)
