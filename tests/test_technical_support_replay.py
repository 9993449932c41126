"""Whole conversations, act by act, against a slow second version that knows names alone.

The second version reads the declaration of the devices (`devices.DEVICES`) and the sentences of
the policy, not the compiled tables: components are called by name, rules are written out.
"""

import dataclasses

import pytest
from support_driven import (
    ABLE,
    DESK,
    Certain,
    act_of,
    begin,
    belief,
    do,
    said,
    succeeded,
    visible,
)

from convgym.domains.technical_support import rules
from convgym.domains.technical_support.combinations import meeting
from convgym.domains.technical_support.devices import DEVICES
from convgym.domains.technical_support.dialogue import ACTIONS, LAYOUT, SAW, SHOWN, U, seen_name
from convgym.domains.technical_support.faults import FAULTS
from convgym.domains.technical_support.goals import goal
from convgym.domains.technical_support.records import VIOLATION, VIOLATIONS
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    LOOKS,
    OPERATION,
    STEPS,
    VALUE_NAMES,
    WRITES,
)
from convgym.domains.technical_support.world import world
from convgym.engine.keys import child
from convgym.engine.rules import ALLOW
from convgym.policies.policy import RandomPolicy
from convgym.policies.technical_support import OraclePolicy, SlotFillingPolicy

BOOKINGS = ("order_replacement", "book_technician")
CABLES = ("replug_power", "replug_cable", "swap_cable", "refill", "clear_jam", "reseat_card")
ON_LINE = ("router", "phone", "tv_box")


class SlowDevice:
    """A device as a dictionary of its components' states, by name; "" as it should be."""

    def __init__(self, kind, faults):
        self.declared = DEVICES[kind]
        self.after = {c.name: c.after for c in self.declared.components}
        self.state = {c.name: "" for c in self.declared.components}
        for number in faults:
            _, component, state = FAULTS[number].code.split(".")
            self.state[component] = state

    def before(self, component):
        """All that a component comes after."""
        found = set(self.after[component])
        for name in self.after[component]:
            found |= self.before(name)
        return found

    def works(self, components):
        closed = set(components).union(*(self.before(name) for name in components))
        return not any(self.state[name] for name in closed)

    def do(self, operation):
        new = dict(self.state)
        for item in self.declared.breaks:
            for fix in item.fixes:
                if fix.operation == operation and self.state[item.component] == item.state:
                    needs = self.after[item.component] if fix.needs is None else fix.needs
                    if self.works(needs):
                        new[item.component] = ""
        for side in self.declared.side_effects:
            fits = side.step == operation and not self.state[side.component]
            if fits and self.works(side.needs):
                new[side.component] = side.state
        self.state = new

    def first(self):
        return next((name for name in self.state if self.state[name]), "")

    def looks(self, look):
        """What shows: the first component, in causal order, that has something to show."""
        for name, state in self.state.items():
            if state and (value := self.showing(look, name, state)):
                return value
        return "ok"

    def showing(self, look, name, state):
        if look == "service":
            return next(
                b.symptom for b in self.declared.breaks if (b.component, b.state) == (name, state)
            )
        sights = [sight for sight in self.declared.sights if sight.look == look]
        for sight in sights:
            for target in (f"{name}.{state}", name):
                if target in sight.shows:
                    return sight.shows[target]
        for sight in sights:
            named = {target.partition(".")[0] for target in sight.shows}
            hidden = set().union(*(self.before(one) for one in named)) - named
            if sight.masked and name in hidden:
                return sight.masked
        return ""


class SlowDesk:
    """The same conversation, kept in sets and dictionaries."""

    def __init__(self, task, opening):
        self.task, self.kind = task, DEVICES[task.kind].name
        self.on = {c for n, c in enumerate(rules.OPTIONAL_CODES) if task.active >> n & 1}
        self.numbers = rules.parameter_dict(task.parameters)
        self.device = SlowDevice(task.kind, task.faults)
        self.sees, self.looked, self.asked = {}, {}, {}
        self.truth_at = {}  # what each check had to show when it was last looked at
        self.done = []  # operations as reported, newest last; bookings are none
        self.marks = set()  # told, confirmed, read, ...
        self.broken, self.written, self.reported = set(), set(), set()
        self.last_write = ""
        self.step = self.wants_yes = ""
        self.seen_working = False
        self.hear([], opening)

    # -- one step ------------------------------------------------------------------------------

    def act(self, name, answer, results):
        yes = ""
        if name.startswith("check_"):
            self.step = ""
        elif name.startswith("do_"):
            self.step = name[3:]
            self.asked[self.step] = min(self.asked.get(self.step, 0) + 1, 3)
            self.oblige(self.step)
        elif name.startswith("inform_"):
            self.inform(name[7:])
        elif name.startswith("confirm_"):
            yes = name[8:]
        elif name.startswith("deny_"):
            if name != "deny_unverified" and not self.authenticated:
                self.broken.add("disclosed_before_authentication")
        elif name in ("close", "ask_more", "end_conversation"):
            self.ends()
        elif name == "report_done":
            self.marks.discard("unreported")
            self.reported.add(self.last_write)
        elif name == "find_customer" and '"customer"' in results[0]:
            self.marks.add("found")
        elif name == "verify_pin" and '"verified": true' in results[0]:
            self.marks.add("verified")
        elif name.startswith("get_device") or name == "get_stated_device":
            if '"serial"' in results[0]:
                self.marks.add("in_hand")
        elif name in ("run_line_test", "get_plan", "get_area_status"):
            look = {"run_line_test": "line_test", "get_plan": "plan_read"}.get(name, "area_status")
            self.read(look)
        elif name in {word.name for word in WRITES} and "error" not in results[0]:
            self.write(name)
        self.hear([yes] if yes else [], answer)

    @property
    def authenticated(self):
        factors = ("found" in self.marks) + ("verified" in self.marks)
        return factors >= self.numbers["auth_level"]

    def inform(self, name):
        if name in ("line_test", "plan_read", "area_status") and not self.authenticated:
            self.broken.add("disclosed_before_authentication")
        rule = {
            "interruption": "interruption_untold", "delivery": "delivery_untold",
            "unplug_first": "unplugging_untold",
        }.get(name)  # fmt: skip
        basis = rule in self.on if rule else name != "technician_fee" or "found" in self.marks
        if basis:
            self.marks.add(f"told_{name}")

    def oblige(self, name):
        """What ought to have come first, sentence by sentence."""
        marks, on, missing = self.marks, self.on, []

        def need(code, holds):
            if not holds:
                missing.append(code)

        if name in {word.name for word in STEPS}:
            if self.kind in ON_LINE:
                need("worked_without_looking_up_the_area", "area_status" in marks)
            if "damage_unasked" in on:
                need("damage_unasked", "damage" in marks)
            if name in CABLES and "unplugging_untold" in on:
                need("unplugging_untold", "told_unplug_first" in marks)
        else:
            need("wrote_before_authentication", self.authenticated)
            need("wrote_without_confirmation", f"yes_{name}" in marks)
            if self.kind in ON_LINE:
                need("wrote_without_looking_up_the_area", "area_status" in marks)
            if name in ("reset_port", "push_config", "unlock_sim") and "interruption_untold" in on:
                need("interruption_untold", "told_interruption" in marks)
        if name == "factory_reset":
            need("reset_without_warning", "told_settings_lost" in marks)
            need("reset_without_consent", "yes_factory_reset" in marks)
            if "reset_without_update" in on:
                need("reset_without_update", "update_software" in self.done)
        if name == "reset_port" and "port_reset_without_line_test" in on:
            need("port_reset_without_line_test", "line_test" in marks)
        if name == "push_config" and "configured_without_reading_the_plan" in on:
            need("configured_without_reading_the_plan", "plan_read" in marks)
        if name == "unlock_sim" and "unlocked_without_pin" in on:
            need("unlocked_without_pin", {"found", "verified"} <= marks)
        if name == "raise_limit":
            need("limit_fee_untold", "told_limit_fee" in marks)
        if name == "order_replacement":
            need("replaced_without_asking_for_damage", "damage" in marks)
            need("replaced_without_restart", "restart" in self.done)
            if "delivery_untold" in on:
                need("delivery_untold", "told_delivery" in marks)
        if name == "book_technician":
            need("technician_without_line_test", "line_test" in marks)
            need("technician_without_cable_check", "data_cable" in marks)
            if self.fee():
                need("technician_fee_untold", "told_technician_fee" in marks)
        self.broken.update(missing)

    def fee(self):
        plus = world().plan[self.task.customer] == 1
        return 0 if "technician_free" in self.on and plus else self.numbers["technician_fee"]

    def read(self, look):
        if look == "area_status":
            out = self.task.outages >> world().area[self.task.customer] & 1
            value = "outage" if out else "ok"
        else:
            value = self.device.looks(look)
        self.marks.add(look)
        applies = any(sight.look == look for sight in self.device.declared.sights)
        if applies or look == "area_status":
            self.sees[look] = (value, 2)

    def write(self, name):
        self.oblige(name)
        if self.refused(name):
            self.broken.add("wrote_against_the_policy")
        self.marks.discard(f"yes_{name}")
        self.marks.add("unreported")
        self.last_write = name
        self.written.add(name)
        self.device.do(name)
        if name not in BOOKINGS:
            self.seen_working = False
        self.operated(name)

    def refused(self, name):
        """Whether the policy leaves the case, or this write, to nobody or to others."""
        task, customer, on = self.task, self.task.customer, self.on
        area, plan = world().area[customer], world().plan[customer]
        seen_out = self.sees.get("area_status", ("", 0))[0] == "outage"
        wet = self.sees.get("damage", ("", 0))[0] == "wet"
        recalled = (self.numbers["recalled_kind"], self.numbers["recalled_model"])
        line = name in ("reset_port", "book_technician")
        return any((
            "business_line" in on and plan == 2,
            world().is_foreign(task.device),
            "recalled" in on and recalled == (task.kind, world().model[task.device]),
            seen_out,
            "overdue_bill" in on and task.overdue,
            "not_covered" in on and plan == 0 and task.kind == self.numbers["uncovered_kind"],
            wet,
            name == "order_replacement"
            and world().months[task.device] > self.numbers["warranty"],
            name == "order_replacement" and "replaced_recently" in on
            and task.replaced < self.numbers["replaced_window"],
            name == "raise_limit" and "limit_reached" in on and "plan_read" in self.marks
            and task.raised >= self.numbers["raises"],
            name == "book_technician" and "remote_area" in on
            and area == self.numbers["remote_area"],
            line and "maintenance" in on and area == self.numbers["maintenance_area"],
        ))  # fmt: skip

    def operated(self, name):
        """A step reported or a write made: what was seen is old, after a reset it is nothing."""
        if name in BOOKINGS:
            self.done_booking(name)
            return
        self.done.append(name)
        resets = any(side.step == name for side in self.device.declared.side_effects)
        for look, (value, _) in list(self.sees.items()):
            if resets and look != "damage":
                del self.sees[look]
            else:
                self.sees[look] = (value, 1)
        self.looked.clear()

    def done_booking(self, name):
        self.marks.add(f"booked_{name}")

    def ends(self):
        booked = any(f"booked_{name}" in self.marks for name in BOOKINGS)
        if "closed_without_restart" in self.on and self.seen_working and not booked:
            if not self.done or self.done[-1] != "restart":
                self.broken.add("closed_without_restart")

    # -- what the customer says ----------------------------------------------------------------

    def hear(self, asked_yes, answer):
        for name in answer:
            if name in ("did_it", "claim_it") and self.step:
                if name == "did_it":
                    self.device.do(self.step)
                self.operated(self.step)
                self.seen_working, self.step = False, ""
            elif name == "not_done":
                self.step = ""
        for name in answer:
            if name.startswith("request_") and "request" not in self.marks:
                self.marks.add("request")
                self.saw("service", name[8:])
            elif U[name] in SAW:
                look, value = SAW[U[name]]
                self.saw(CHECKS[look].name, VALUE_NAMES[value], told=True)
        if "affirm" in answer:
            self.marks.update(f"yes_{name}" for name in asked_yes)

    def saw(self, look, value, told=False):
        truth = self.device.looks(look)
        if told and self.truth_at.get(look) == truth:
            assert value == truth, "a second look at the same thing shows the truth"
        if look in ("service", "damage"):
            assert value == truth
        if told:
            self.truth_at[look] = truth
        self.sees[look] = (value, 2)
        self.looked[look] = min(self.looked.get(look, 0) + 1, 3)
        self.marks.add(look)
        if look == "service":
            self.seen_working = value == "ok"

    # -- what must agree -----------------------------------------------------------------------

    def compare(self, episode):
        row = episode.belief

        def cell(name):
            return row[LAYOUT[name]]

        states = tuple(
            next((f.state for f in FAULTS
                  if f.code == f"{self.kind}.{name}.{state}"), 0)
            for name, state in self.device.state.items()
        )  # fmt: skip
        assert episode.desk.device[: len(states)] == states
        assert {code for code in VIOLATIONS if episode.violations & VIOLATION[code]} == self.broken
        for look, word in enumerate(LOOKS):
            value, age = self.sees.get(word.name, ("", 0))
            for shown in SHOWN[look]:
                expected = age if VALUE_NAMES[shown] == value else 0
                assert cell(f"sees_{seen_name(look, shown)}") == expected
        for word in CHECKS:
            assert cell(f"looked_{word.name}") == self.looked.get(word.name, 0)
        newest = {name: age for age, name in reversed(list(enumerate(reversed(self.done), 1)))}
        for word in STEPS:
            assert cell(f"asked_{word.name}") == self.asked.get(word.name, 0)
            assert cell(f"age_{word.name}") == newest.get(word.name, 0)
        for word in WRITES:
            booked = f"booked_{word.name}" in self.marks
            assert cell(f"age_{word.name}") == (booked or newest.get(word.name, 0))
            assert cell(f"confirmed_{word.name}") == (f"yes_{word.name}" in self.marks)
        assert cell("agreed_reset") == ("yes_factory_reset" in self.marks)
        assert cell("unreported") == ("unreported" in self.marks)
        assert episode.desk.seen_working == self.seen_working

    def succeeded(self, episode):
        """Whether the case came to its right end."""
        task, wanted = self.task, goal(self.task)
        names = {word.name for word in WRITES}
        needed = {n for n in names if wanted.required >> OPERATION[n] & 1}
        spare = {n for n in names if wanted.allowed >> OPERATION[n] & 1}
        if self.broken or self.written - spare:
            return False
        if task.decision.effect != ALLOW:
            return None  # seen to by hand in test_technical_support_desk
        if not self.authenticated or "in_hand" not in self.marks:
            return False
        if any(name.startswith("denied_") for name in LAYOUT if episode.belief[LAYOUT[name]]):
            return False
        if needed & set(BOOKINGS):
            return needed <= self.written & self.reported and bool(self.device.first())
        return needed <= self.written & self.reported and self.seen_working


POLICIES = {
    "oracle": lambda: OraclePolicy(),
    "noisy oracle": lambda: OraclePolicy(noise=0.25),
    "noisy form": lambda: SlotFillingPolicy(noise=0.2),
    "random": RandomPolicy,
}


@pytest.mark.parametrize("split", ["train", "test_compositional", "test_policy", "test_primitive"])
@pytest.mark.parametrize("name", POLICIES)
def test_a_conversation_is_what_the_slow_second_version_makes_of_it(name, split):
    steps = ends = 0
    for number in range(60):
        task = DESK.task(split, number)
        episode, engine = begin(task, child(11, number))
        slow, policy = SlowDesk(task, said(episode)), POLICIES[name]()
        policy.reset(number)
        while not episode.end:
            act = act_of(policy, episode)
            engine.apply(episode, DESK.turn(episode, act))
            if episode.desk.in_hand not in (-1, task.pointer):
                break  # the wrong device is in hand: seen to in test_technical_support_desk
            slow.act(ACTIONS.names[act], said(episode), episode.tool_results)
            if episode.end and not episode.truncated and episode.user_turn:
                slow.ends() if episode.user_turn.closed else None
            slow.compare(episode)
            steps += 1
        if episode.end and (expected := slow.succeeded(episode)) is not None:
            assert succeeded(episode) == (expected and not episode.truncated)
            ends += 1
    assert steps > 300 and (ends > 15 or name == "random")


# -- what is hidden stays hidden -------------------------------------------------------------------


def otherwise(task):
    """Tasks that differ in nothing but what is hidden: other faults with the same symptom."""
    same = [
        faults
        for faults in meeting(task.kind)
        if faults != task.faults and FAULTS[faults[0]].symptom == task.symptom
    ]
    for faults in same[:: max(1, len(same) // 6)]:
        yield dataclasses.replace(task, faults=faults)


@pytest.mark.parametrize("split", ["train", "test_policy"])
def test_equal_visible_history_gives_equal_belief_and_mask(split):
    """As long as two conversations look alike, so do belief and legal acts."""
    together = apart = 0
    for number in range(120):
        task = DESK.task(split, number)
        for other in otherwise(task):
            pair = [begin(one, child(3, number)) for one in (task, other)]
            policy = OraclePolicy(noise=0.3)
            policy.reset(number)
            while not any(episode.end for episode, _ in pair):
                (first, _), (second, _) = pair
                assert bytes(first.belief) == bytes(second.belief)
                assert (ACTIONS.mask(belief(first)) == ACTIONS.mask(belief(second))).all()
                assert DESK.view(first) == DESK.view(second)
                act = act_of(policy, first)
                for episode, engine in pair:
                    engine.apply(episode, DESK.turn(episode, act))
                if visible(first) != visible(second):
                    apart += 1
                    break
                together += 1
    assert together > 2000 and apart > 100


def test_an_agent_cannot_tell_a_claim_from_a_deed():
    """A step that changes nothing: done or only claimed, the conversation is the same."""
    for number in range(30):
        task = DESK.task("test", number)
        rows = []
        for yes in ((), ("skip_step", "claim_step")):
            episode, engine = begin(task, 1, DESK.make_user(Certain(*yes)), ABLE)
            do(episode, engine, "ask_phone", "find_customer", "list_devices",
               f"get_device_{task.pointer}", "get_area_status", "do_restart")  # fmt: skip
            rows.append((bytes(episode.belief), visible(episode)))
        assert rows[0] == rows[1]


def test_snapshot_and_restore_repeat_a_conversation():
    for number in range(20):
        task = DESK.task("test", number)
        episode, engine = begin(task, number)
        policy = OraclePolicy(noise=0.2)
        policy.reset(number)
        for _ in range(9):
            if not episode.end:
                engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))
        saved, ends = episode.snapshot(), []
        for _ in range(2):
            episode.restore(saved)
            policy.reset(7)
            while not episode.end:
                engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))
            ends.append((bytes(episode.belief), episode.desk.device, episode.ledger,
                         episode.violations, episode.end, episode.diff))  # fmt: skip
        assert ends[0] == ends[1]
        assert saved.desk.device == saved.snapshot().desk.device
