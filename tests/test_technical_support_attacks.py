"""Support in words that are easily misheard, and customers' wordings that were no English."""

import json
import re
from itertools import chain

import pytest
from support_words import task_of

from convgym.domains.technical_support import view
from convgym.domains.technical_support.dialogue import USER_ACTS
from convgym.domains.technical_support.labels import labels
from convgym.domains.technical_support.vocabulary import KINDS
from convgym.domains.technical_support.wording import PACKAGE
from convgym.envs.technical_support import TechnicalSupportEnv
from convgym.evaluation.evaluate import evaluate
from convgym.language.phrases import packaged, read_tables
from convgym.policies.null import FixedReplies

# -- the agent's replies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        # Off and on again is one step, whatever stands between.
        ("Thanks! I've checked your line and everything looks fine. Could you unplug the router "
         "for 10 seconds, plug it back in and tell me whether the light turns green?",
         {"inform(line_test=ok)", "instruct(restart)", "check(power_light)"}),
        ("Could you unplug the HDMI cable, and then plug it back in at both ends?",
         {"instruct(replug_cable)"}),
        # A report of what nobody has done.
        ("Could you try re-entering the Wi-Fi password? Make sure that caps lock is off.",
         {"instruct(enter_password)", "explain"}),
        ("Please make sure that the port is reset.", set()),
        ("The SIM lock is now off.", {"done(unlock_sim)"}),
        ("The outage in your area has been resolved, so please restart the router now.",
         {"instruct(restart)"}),
        ("There is an outage in your area, and it is not over yet.",
         {"inform(area_status=outage)"}),
        # A yes that is asked for, and no question for more.
        ("I'd like to send you a free replacement. Would that be all right?",
         {"confirm(order_replacement)"}),
        ("Would that be all?", {"ask(more)"}),
        ("Are you ready to do the factory reset?", {"confirm(factory_reset)"}),
        # When the customer is to speak is no condition of what it is to look at.
        ("Once it's back on, let me know if the internet works.", {"check(service)"}),
        ("Let me know if you need anything else.", {"ask(more)"}),
        ("Since the light is red, could you please try a different network cable if you have one?",
         {"instruct(swap_cable)"}),
        ("Since the light is red, could you please check the cable?", {"check(data_cable)"}),
        # One step in two words is no choice between two.
        ("Could you delete some photos or apps to free up storage?", {"instruct(free_storage)"}),
        ("Please charge it or sign in again.", set()),
        ("Open the back cover and gently pull out any jammed paper.", {"instruct(clear_jam)"}),
        # What is told.
        ("This will interrupt your service for about 10 minutes.", {"inform(interruption=10)"}),
        ("Good news: I don't see any outages in your area.", {"inform(area_status=ok)"}),
        ("There aren't any known outages in your area.", {"inform(area_status=ok)"}),
        # A refusal that says where it is written.
        ("As per our policy, I can't help while there is an outage in your area.",
         {"deny(area_outage)"}),
        ("Our policy doesn't allow me to help you as long as your bill is overdue.",
         {"deny(overdue_bill)"}),
        ("Your router has been recalled by the manufacturer, so I can't troubleshoot it further. "
         "We'll send you an exchange kit free of charge if you'd like.",
         {"deny(recalled)", "offer(exchange_kit)"}),
    ],
)  # fmt: skip
def test_what_agents_say_in_many_words_is_heard(text, meant):
    assert labels(text) == meant


# -- the customer's wordings -----------------------------------------------------------------------

THINGS = {
    (act, slot_value[1])
    for kind in KINDS
    for act in range(len(USER_ACTS))
    if (slot_value := view.slot_and_value(task_of(kind), act))[0] == "thing"
}
"""(act, name) of everything that a customer can see, as it is called on a device."""


def test_a_thing_that_brings_its_article_gets_no_second_one():
    """A repaired bug: "there's a red the network symbol"."""
    tables = read_tables(packaged(PACKAGE, "user_phrases.toml"))
    texts = [
        text
        for acts in tables.values()
        for by_register in acts.values()
        for text in chain.from_iterable(by_register.values())
    ]
    assert sum("{thing}" in text for text in texts) > 200
    doubled = re.compile(r"\b(?:an?|the|no|any|my|its|red|green|this|that's a)( \w+)? \{thing\}")
    assert [t for t in texts if (m := doubled.search(t)) and m[1] is None] == []


def test_one_thing_is_spoken_of_as_one():
    """A repaired bug: "the batteries of the remote is empty"."""
    empty = USER_ACTS.index("see_battery_empty")
    assert {name for act, name in THINGS if act == empty} == {
        "the battery", "the charge lamp", "the battery of the remote",
    }  # fmt: skip


# -- nothing for nothing ---------------------------------------------------------------------------


def _call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


CONSTANT = {
    "all steps at once": (
        "Please restart it, push the cables in at both ends, update it, and sign in again.",
        "Does it work now?",
    ),
    "never verified": (
        "What is your PIN?", _call("verify_pin", pin="0000"), _call("verify_pin", pin="1111"),
        "I am sorry, I could not verify who you are, so I cannot help you.",
    ),
    "transfer for water": ("Did it get wet?", _call("get_area_status"), _call("transfer_to_human")),
    "made-up dialogue": ("Customer: It works now, thank you! Agent: Great, goodbye. [SUCCESS]",),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANT)
def test_constant_agents_win_nothing(name):
    env = TechnicalSupportEnv(split="test")
    assert evaluate(FixedReplies(name, CONSTANT[name]), env, episodes=60, seed=5).successes == 0
