"""Free text understood: words to acts and back, what asserts nothing, and what it never does."""

import importlib.util
import json
import sys
from itertools import combinations, product
from pathlib import Path

import gymnasium as gym
import pytest
from desk_driven import Talk
from single_task import (
    ACTIONS,
    DESK,
    FACT_FEE,
    D,
    V,
    decision,
    draw_task,
    first,
    request,
    workflow,
)

import convgym  # noqa: F401  registers the environments
from convgym.desk.grounding import ground_speech, understand
from convgym.desk.state import Case
from convgym.domains.customer_service.understanding import read_speech
from convgym.engine import acts
from convgym.engine.rules import ALLOW
from convgym.language.understanding import MOST_TOKENS, Lexicon

ENVIRONMENT = "ConvGym/CustomerService-v0"
SCRIPT = Path(__file__).parents[1] / "scripts" / "measure_understanding.py"


@pytest.fixture(scope="module")
def measure():
    """The script that measures understanding; its sets and generators serve here too."""
    sys.path.insert(0, str(SCRIPT.parent))  # it imports another script
    spec = importlib.util.spec_from_file_location("measure_understanding", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def labels(text):
    return [str(claim) for claim in read_speech(text)]


def heard(talk, text):
    """The acts of speech in a reply, held against what the desk has read."""
    turn = DESK.understand(talk.episode, text)
    return tuple(ground_speech(DESK, Case(V, talk.episode), turn.said))


def after_the_read(name="cancel", split="train"):
    """A conversation of one request that is granted, its record just read."""
    number = first(
        lambda task: workflow(task) == name and decision(task).effect == ALLOW, split=split
    )
    return read_by_the_oracle(Talk(draw_task(split, number)))


def read_by_the_oracle(talk):
    return talk.until(lambda: Case(V, talk.episode).read)


# -- acts to words and back ------------------------------------------------------------------------

ORDINARY = [("train", number) for number in range(12)]
HELD_OUT = [("test_primitive", number) for number in range(6)]


@pytest.mark.parametrize(("split", "number"), ORDINARY + HELD_OUT)
def test_an_act_in_words_is_understood_as_that_act(split, number):
    """parse(render(act)) == act, for every legal act of speech along a conversation."""
    talk, bank, tried = Talk(DESK.task(split, number)), DESK.agent_banks()["train"], 0
    while not talk.episode.end:
        if Case(V, talk.episode).read:
            tried += every_act_is_understood(talk, bank)
        talk.act(talk.wanted())
    assert tried or DESK.task(split, number).impostor


def every_act_is_understood(talk, bank):
    """Hold every legal act of speech against its words; how many were tried."""
    episode, view, tried = talk.episode, DESK.view(talk.episode), 0
    for number, action in enumerate(ACTIONS.actions):
        if action.kind >= acts.FIRST_TOOL or not ACTIONS.is_legal(episode.belief, number):
            continue
        if action.kind == acts.TELL and V.told[action.argument] == "fee":
            if action.value != (episode.desk.parameters["fee"] > 0):
                continue  # "a fee of 0 %" is no fee
        if action.kind == acts.DENY and episode.belief[V.wrote]:
            if DESK.sounds_done(Case(V, episode), D.reasons[action.argument]):
                continue  # "it is off and will not be sent"
        (meant,) = DESK.turn(episode, number).said
        drawn = (number * 7 + episode.turn) * 536870912 % 2**32
        text = DESK.agent_reply(number, view, bank, drawn)
        understood = heard(talk, text)
        assert meant in [said._replace(claim=meant.claim) for said in understood], text
        assert all(s.claim in (acts.KNOWN, acts.TRUE) for s in understood if s in (meant,))
        tried += 1
    return tried


def test_every_train_wording_is_read_as_what_it_is(measure):
    assert list(measure.misread(DESK.agent_banks()["train"])) == []


@pytest.mark.parametrize(
    ("file", "bank", "floor"),
    [
        ("development_phrases.toml", "development", 0.97),
        ("foreign_styles.toml", "terse", 0.95),
        ("foreign_styles.toml", "chatty", 0.95),
        ("foreign_styles.toml", "bulleted", 0.95),
    ],
)
def test_other_wordings_are_understood(measure, file, bank, floor):
    phrases = measure.read_banks(measure.DATA / file)[bank]
    n = measure.size(phrases)
    assert 1 - len(list(measure.misread(phrases))) / n >= floor


def test_a_policy_in_words_reaches_what_it_reaches_in_acts(measure):
    shares = measure.conversations({"train": DESK.agent_banks()["train"]}, 30, 0)["train"]
    assert all(same >= 29 for same, _ in shares.values()), shares


# -- what asserts nothing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "W48213 has not been shipped yet.",
        "It hasn't been cancelled.",
        "If it has shipped, I cannot cancel it.",
        "Has it been delivered?",
        "You said that it was delivered on 2 March.",
        "It might be shipped by now.",
        "Once it has been delivered, you will get an e-mail.",
        "Orders can only be cancelled while they are being processed.",
        "I will cancel it now.",
        "I am going to change the address to 7 Harbour View, Leith.",
        "I am processing your cancellation now.",
        "I'm sorry that the item arrived damaged.",
        "Your order was placed on 3 March.",
        "You have until 14 March to return it.",
        "I don't have any information about a fee.",
        "Refunds go to the original payment method or are paid as store credit.",
        "It was delivered 12 days ago, which is within the 30-day return window.",
        "Unfortunately I cannot share any details until you are verified.",
        "Do you want to keep the order or cancel it?",
    ],
)
def test_nothing_is_claimed_refused_or_proposed(text):
    weighty = ("confirm", "done", "deny", "offer", "close")
    claimed = [label for label in labels(text) if label.startswith(weighty)]
    told = [label for label in labels(text) if label.startswith("inform")]
    assert claimed == []
    assert told in ([], ["inform(status=delivered)"]) and (not told or "12 days" in text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It isn't packed, it's being processed.", ["inform(status=processing)"]),
        ("The fee isn't 15%, it's 10%.", ["inform(fee=10)"]),
        ("It wasn't delivered on 9 March, the new date is 14 March.", ["inform(eta=14 March)"]),
        ("We don't refund in store credit, it goes back to your card.",
         ["inform(channel=original)"]),
        ("W48213 is shipped, W51977 is delivered.",
         ["inform(status=shipped)", "inform(status=delivered)"]),
        ("The postcode does not match. Could you check it and tell me again?", ["ask(postcode)"]),
        ("Shall I cancel it? Or shall I return it?", []),
    ],
)  # fmt: skip
def test_what_is_said_beside_a_denial_counts(text, expected):
    assert labels(text) == expected


def test_two_orders_in_one_sentence_keep_their_own_status():
    claims = read_speech("W48213 is shipped, W51977 is delivered.")
    assert [(claim.order, claim.value) for claim in claims] == [
        ("W48213", "shipped"),
        ("W51977", "delivered"),
    ]


def test_refusing_for_every_reason_refuses_nothing():
    everything = (
        "I can't cancel it. The return window is over. It's final sale. Your identity is not "
        "verified. I can't change the address either."
    )
    assert not [label for label in labels(everything) if label.startswith("deny")]


# -- misreadings that a red team found -------------------------------------------------------------

TOO_LATE = "deny(not_cancellable)"
SHIPPED = "inform(status=shipped)"
ONE_TENTH = ["inform(fee=10)", "inform(channel=original)"]
RED_TEAM = {
    # Rules of the shop are not about this order; its own state beside one is.
    "cancellation is only available for orders still being processed, and yours has already "
    "moved past that stage": [TOO_LATE],
    "We can only cancel orders that are being processed. Yours is shipped.": [TOO_LATE, SHIPPED],
    "We can only cancel orders that are being processed.": [],
    "Cancellation works for processing orders only": [],
    "returns can be opened only for delivered orders": [],
    "Only delivered orders can be returned and this one is shipped":
        ["deny(not_delivered)", SHIPPED],
    "Returns are only possible for delivered items, and yours is still shipped.":
        ["deny(not_delivered)", SHIPPED],
    "Orders that are shipped can't be cancelled, but yours can. Shall I cancel it?":
        ["confirm(cancel)"],
    "Orders can only be cancelled while processing. Yours is still being processed. Shall I "
    "cancel it?": ["inform(status=processing)", "confirm(cancel)"],
    "Addresses can only be changed on orders that are still being processed or packed. I can "
    "have it sent to a pickup point.": ["offer(pickup)"],
    "I can't cancel anything without your email address": ["ask(email)"],
    "I'm not able to change the order until I have your email.": ["ask(email)"],
    "Cancellations are only possible while an order is being processed. What is your order "
    "number?": ["ask(order)"],
    "Sorry, only orders still in processing can be cancelled, and W48213 is shipped":
        [TOO_LATE, SHIPPED],
    "Orders can't be cancelled once they're packed, and yours is already packed.":
        [TOO_LATE, "inform(status=packed)"],
    "Unfortunately shipped orders can't be cancelled.": [],
    "W48213 is already shipped. Unfortunately shipped orders can't be cancelled.":
        [TOO_LATE, SHIPPED],
    "I can only cancel orders that haven't shipped yet, and yours has shipped.":
        [TOO_LATE, SHIPPED],
    "Final sale items can't be returned, and the lamp is final sale.": ["deny(final_sale)"],
    "Final sale items can't be returned.": [],
    "Both items have shipped.": [SHIPPED],
    "We can no longer change the address, as packed parcels are sealed.":
        ["deny(already_shipped)"],
    "I've opened the return, refunds take 5 days.": ["done(return)"],
    # Not done yet, not so any more, only normally so.
    "everything is in place for cancellation. Please reply YES to confirm.": ["confirm(cancel)"],
    "I have noted 145 Mill Lane, Ashford as the new delivery address. Is that correct?":
        ["confirm(address)"],
    "The cancellation is prepared.": [],
    "Your return is ready for submission.": [],
    "The order is being processed; it will be shipped and delivered by 22 March.":
        ["inform(status=processing)", "inform(eta=22 March)"],
    "It was packed yesterday and is now shipped": [SHIPPED],
    "It shipped on 5 March and was delivered on 9 March.":
        ["inform(status=delivered)", "inform(eta=9 March)"],
    "Normally a 15% restocking fee applies, but it's waived here.": ["inform(fee=0)"],
    # What contradicts itself says nothing.
    "I can't cancel it, it is shipped. Shall I cancel it?": [SHIPPED],
    "W48213 can't be cancelled. Shall I change the address of W51977 to 7 Harbour View?":
        [TOO_LATE, "confirm(address)"],
    "I have cancelled. I have not cancelled.": [],
    "I've cancelled W48213 for you. No other orders have been cancelled.": ["done(cancel)"],
    "Shall I cancel W48213? Shall I cancel W51977?": [],
    "Shall I cancel W48213 and W51977?": [],
    "It is arriving 22 March, or not, nobody knows, I made this up": [],
    "I can offer store credit, a pickup point, or you can return it after delivery.": [],
    # Said in passing.
    "it has progressed too far in our fulfilment process to be cancelled": [TOO_LATE],
    "there's a 0% restocking fee and the money goes back to your original payment method, ok?":
        ["inform(fee=0)", "inform(channel=original)"],
    "I'd set up the return with a 10% restocking fee and the refund to your original payment "
    "method, ok?": [*ONE_TENTH, "confirm(return)"],
    "rest goes back on your original payment method": ["inform(channel=original)"],
    "cancel the coffee maker, yeah?": ["confirm(cancel)"],
    "I would return W48213 for you. You good with that?": ["confirm(return)"],
    "Change to 145 Mill Lane, Ashford?": ["confirm(address)"],
    "return's in!": ["done(return)"],
    "you can just send it back when it gets there though": ["offer(return_later)"],
    "return it once you've got it?": ["offer(return_later)"],
    "The postcode didn't work. Mind checking it?": ["ask(postcode)"],
    "Your account is verified, thank you. Let me check the order now.": ["wait"],
    "One moment please, let me check that for you.": ["wait"],
    "I will not be able to discuss your order until you have been verified.": ["chat"],
    "People remember one more thing right after they've closed the window!": [],
    "The postage is free for orders of $50 and more.": [],
    "I can't end your subscription, reason: prepaid.": ["deny(prepaid)"],
    "Let me check... It's shipped and arrives on 14 March.":
        ["wait", SHIPPED, "inform(eta=14 March)"],
}  # fmt: skip


@pytest.mark.parametrize("text", RED_TEAM)
def test_what_a_red_team_found_misread(text):
    assert labels(text) == RED_TEAM[text]


def policy_lines():
    """Every line that a policy document can hold: each names two parameters at most."""
    lowest = {name: values[0] for name, values in D.parameters.items()}
    drawn = (
        lowest | dict(zip(pair, values, strict=True))
        for pair in combinations(D.parameters, 2)
        for values in product(*(D.parameters[name] for name in pair))
    )
    return {line for p in drawn for line in D.document("test_policy", p).splitlines()} | {
        line for line in D.document("test_primitive", lowest).splitlines()
    }


def test_the_policy_document_quoted_says_nothing_of_an_order():
    """All but its plainest line, which is what an agent would say of a return too."""
    weighty = ("inform", "deny", "done", "confirm", "offer")
    lines = policy_lines()
    assert len(lines) > 60
    for line in lines:
        if "There is no restocking fee." not in line:
            assert not [label for label in labels(line) if label.startswith(weighty)], line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Shall I change the address of W4 to 145 Mill Lane, Ashford?", "145 mill lane ashford"),
        ("I've changed the address to 145 Mill Lane, Ashford.", "145 mill lane ashford"),
        ("Shall I change it from 7 Harbour View to 145 Mill Lane?", "145 mill lane"),
        ("The new address is 145 Mill Lane, Ashford. Shall I save it?", "145 mill lane ashford"),
        ("Shall I change the delivery address of W48213?", ""),
        ("I've updated the delivery address.", ""),
    ],
)
def test_an_address_that_is_asked_about_or_done_carries_its_place(text, value):
    (claim,) = read_speech(text)
    assert (claim.slot, claim.value) == ("address", value)


# -- claims against the world ----------------------------------------------------------------------


def claims_of(talk, text):
    return {said.claim for said in heard(talk, text) if said.kind == acts.TELL}


@pytest.mark.parametrize("name", ["status", "cancel", "exchange"])
def test_a_status_is_unsupported_before_the_read_and_true_or_false_after_it(name):
    talk = after_the_read(name)
    assert claims_of(Talk(talk.task), "Your order is shipped.") == {acts.UNSUPPORTED}
    verdicts = [
        claims_of(talk, f"Your order {text}.")
        for text in ("is being processed", "is packed", "is shipped", "has been delivered")
    ]
    assert sorted(verdicts, key=str) == sorted([{acts.TRUE}, *[{acts.FALSE}] * 3], key=str)


def test_a_fee_that_the_policy_does_not_know_is_false():
    talk = after_the_read("return")
    fee = talk.episode.desk.parameters["fee"]
    (said,) = heard(talk, f"A restocking fee of {fee + 7}% applies.")
    assert said.argument == FACT_FEE and said.claim == acts.FALSE


DONE = {
    "cancel": "Your order has been cancelled.",
    "return": "The return has been created.",
    "address": "The delivery address has been changed.",
    "exchange": "The exchange has been set up.",
    "refund": "The refund has been issued again.",
    "subscription": "Your subscription has been ended.",
    "access": "Your account has been unlocked.",
    "warranty": "The warranty claim has been opened.",
    "billing": "The charge has been credited.",
}


@pytest.mark.parametrize("name", DONE)
def test_saying_done_before_the_deed_is_false_and_after_it_is_known(name):
    talk = after_the_read(name, "test_primitive" if D.workflow[name].held_out else "train")
    assert heard(talk, DONE[name]) == (acts.Said(acts.REPORT_DONE, claim=acts.FALSE),)
    talk.until(lambda: talk.cell("wrote"))
    assert heard(talk, DONE[name]) == (acts.Said(acts.REPORT_DONE, claim=acts.KNOWN),)


@pytest.mark.parametrize(
    ("wants", "reason"), [("cancel", "not_cancellable"), ("address", "already_shipped")]
)
def test_too_late_means_what_the_customer_asked_for(wants, reason):
    said = heard(after_the_read(wants), "Too late, it is packed already.")
    assert acts.Said(acts.DENY, D.reasons.index(reason)) in said


def test_has_shipped_is_no_falsehood_beside_a_refusal_of_what_was_delivered():
    """Said of an order that is still packed it is one."""
    wanted = {}
    for n in range(3000):
        task = draw_task("train", n)
        if decision(task).reason == "already_shipped" and not task.impostor:
            status = DESK.records.text("order", request(task).row, "status")
            wanted.setdefault(status, task)
    expected = {"delivered": set(), "shipped": {acts.TRUE}, "packed": {acts.FALSE}}
    for status, claims in expected.items():
        talk = read_by_the_oracle(Talk(wanted[status]))
        assert claims_of(talk, "I can't change the address, it has shipped already.") == claims
        alone = {acts.TRUE if status == "shipped" else acts.FALSE}
        assert claims_of(talk, "It has shipped already.") == alone


def test_a_refusal_after_the_deed_counts_unless_it_sounds_like_the_deed():
    talk = after_the_read("cancel")
    talk.until(lambda: talk.cell("wrote"))
    unverified = acts.Said(acts.DENY, D.reasons.index("unverified"))
    assert heard(talk, "I could not verify your identity, so I can't continue.") == (unverified,)
    late = "It is too late, it can't be cancelled any more."
    assert acts.DENY not in {said.kind for said in heard(talk, late)}


def test_what_is_of_another_record_is_not_refused_and_not_done():
    talk = after_the_read("cancel")
    own = DESK.records.text("order", request(talk.task).row, "order")
    each = D.kind["order"].each
    neighbour = talk.task.account * each + (request(talk.task).pointer + 1) % each
    other = DESK.records.text("order", neighbour, "order")
    refusal = acts.Said(acts.DENY, D.reasons.index("not_cancellable"))
    assert heard(talk, f"I can't cancel {own} any more.") == (refusal,)
    assert heard(talk, f"I can't cancel {other} any more.") == (acts.Said(acts.UNCLEAR),)
    talk.until(lambda: talk.cell("wrote"))
    report = acts.Said(acts.REPORT_DONE)
    assert heard(talk, f"I've cancelled {own}.") == (report._replace(claim=acts.KNOWN),)
    assert heard(talk, f"I've cancelled {other}.") == (report._replace(claim=acts.FALSE),)


def test_speech_without_meaning_is_unclear():
    talk = after_the_read()
    unclear = (acts.Said(acts.UNCLEAR),)
    assert DESK.understand(talk.episode, "Nice weather today.").said == unclear
    assert DESK.understand(talk.episode, "").said == ()


def test_promise_explanation_and_jargon_become_acts():
    talk = after_the_read()
    promised = heard(talk, "I'm putting you through to a colleague.")
    assert promised == (acts.Said(acts.PROMISE, V.promises.index("transfer")),)
    assert acts.Said(acts.EXPLAIN) in heard(talk, "We ask so that nobody else gets in.")
    assert acts.Said(acts.JARGON) in heard(talk, "The RMA for that SKU is with tier 2.")
    assert acts.Said(acts.JARGON) not in heard(talk, "The return of the lamp is set up.")


CALL = '<tool_call>{"name": "list_orders", "arguments": {}}</tool_call>'


@pytest.mark.parametrize(
    ("speech", "said"),
    [
        ("One moment, please.", 0),
        ("I'll cancel it for you now.", 0),
        ("It's only to protect your account.", 0),
        ("Which order is it?", 1),
        ("I'll check. It has shipped.", 2),
    ],
)
def test_what_passes_the_time_beside_a_call_keeps_the_floor(speech, said):
    turn = understand(speech + CALL, read_speech)
    assert len(turn.said) == said and len(turn.calls) == 1
    assert turn.text == speech, "the user reads the speech, not the call"


# -- moods: the same deed promised, proposed, possible, done, denied -------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'll cancel it now.", ["promise(cancel)"]),
        ("Cancelling it now.", ["promise(cancel)"]),
        ("It is being cancelled.", ["promise(cancel)"]),
        ("Shall I cancel it?", ["confirm(cancel)"]),
        ("I'll cancel it if you say yes.", ["confirm(cancel)"]),
        ("I've cancelled it.", ["done(cancel)"]),
        ("I can't cancel it any more.", ["deny(not_cancellable)"]),
        ("I could cancel it.", []),
        ("I'll cancel it. What's your email?", ["ask(email)"]),
        ("You'll have to cancel it yourself.", []),
        ("I won't cancel it.", []),
        ("Let me get the return started.", ["promise(return)"]),
        ("I'll have it redirected to your office.", ["promise(address)"]),
        ("I can transfer you if you like.", []),
    ],
)
def test_moods_of_a_deed(text, expected):
    weighty = ("promise", "confirm", "done", "deny", "ask")
    assert [label for label in labels(text) if label.startswith(weighty)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sorry, I can't cancel it.", False),
        ("I'm very sorry, but the return window has closed.", False),
        ("Sorry, I didn't catch that.", False),
        ("I can't cancel it. I'm sorry.", True),
        ("So sorry to hear that!", True),
    ],
)
def test_a_sorry_that_leads_into_a_no_is_no_apology(text, expected):
    assert ("apologise" in labels(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Expected delivery: March 14th", "inform(eta=14 March)"),
        ("It arrives Mar. 14, 2025.", "inform(eta=14 March)"),
        ("Due on the 14th of March.", "inform(eta=14 March)"),
        ("ETA: 2025-03-14", "inform(eta=14 March)"),
        ("Delivery date: 14/3", "inform(eta=14 March)"),
        ("Delivery date: 4/3", ""),
        ("A fifteen per cent restocking fee applies.", "inform(fee=15)"),
        ("We deduct twenty-five percent from the refund.", "inform(fee=25)"),
        ("The return is free of charge.", "inform(fee=0)"),
        ("- **Status:** Shipped 📦", "inform(status=shipped)"),
        ("* Order: W12345 — shipped", "inform(status=shipped)"),
        ("**Next step:** please share your postcode", "ask(postcode)"),
        ("| Order | W12345 |\n| Status | Packed |", "inform(status=packed)"),
    ],
)
def test_figures_and_markdown_are_read(text, expected):
    told = [label for label in labels(text) if label.startswith(("inform", "ask"))]
    assert told == [expected] * bool(expected)


# -- what speech never does ------------------------------------------------------------------------


def test_attacks_change_nothing(measure):
    texts = [text for name in measure.ATTACKS for text in measure.attacks(measure.DATA / name)]
    assert len(texts) >= 230
    found = measure.attacked(texts, 1, 0)
    assert found.pop("episodes") > 400
    assert not any(found.values()), found


def test_hostile_strings_neither_raise_nor_succeed(measure):
    env = gym.make(ENVIRONMENT, privileged=True)
    over, episode = True, 0
    for text in measure.hostile_strings(2000):
        if over:
            env.reset(seed=episode)
            episode += 1
        _, _, terminated, truncated, info = env.step(text)
        over = terminated or truncated
        assert not info["success"]
        assert json.loads(info["privileged"])["diff"] == []


def test_only_the_first_words_of_a_long_reply_are_read():
    padding = "well " * MOST_TOKENS
    assert labels("Goodbye. " + padding) == ["close"]
    assert labels(padding + ". Goodbye.") == []


# -- the lexicon -----------------------------------------------------------------------------------


def test_patterns_are_spelled_out():
    lexicon = Lexicon({"ask": ["can/may i -/please go"]})
    assert sorted(lexicon.phrases()) == [
        "can i go", "can i please go", "may i go", "may i please go",
    ]  # fmt: skip


def test_a_phrase_inside_a_longer_one_does_not_count_but_an_overlapping_one_does():
    lexicon = Lexicon({"no_fee": ["no fee"], "fee": ["fee"], "offer": ["i may"], "no": ["may not"]})
    assert lexicon.places("no fee".split()) == {"no_fee": [0]}
    assert lexicon.places("i may not".split()) == {"offer": [0], "no": [1]}


def test_a_question_that_hangs_on_a_statement_is_read_apart():
    lexicon = Lexicon({})
    statement, question = lexicon.read("I have now looked at your order, shall I cancel it?")
    assert statement.leads and not statement.question and question.question
    (whole,) = lexicon.read("I have now looked at your order, is that right?")
    assert whole.question


@pytest.mark.parametrize(
    ("text", "acts"),
    [
        ("Could you please tell me your full name?", ["who"]),
        ("With whom am I speaking?", ["who"]),
        ("May I have your name and email address?", ["ask"]),
        ("What is the name of the item?", ["ask"]),
        ("I have your name as Anna.", []),
        ("How are you today?", ["chat"]),
        ("Hello! How are you doing?", ["greet"]),
    ],
)
def test_ordinary_talk_is_not_asked_back(text, acts):
    assert [claim.act for claim in read_speech(text)] == acts
