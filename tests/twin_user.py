"""A parametric user who talks to a scripted agent: logs whose 36 true parameters are known.

It is no LogSimulator: its own phrases, answers that hang on how long the agent's question is,
lengths that are drawn before words, and a habit (asking for a moment) that no parameter names.
"""

import math

import numpy as np

from convgym.calibration.parameters import PARAMETERS, STRENGTH
from convgym.conversation import Conversation, Message

SLOTS = ("order", "email", "city", "product", "date")
ASKS = {
    "order": "Which order is it about?",
    "email": "Could you give me the address that you have signed up with, so that I find you?",
    "city": "Where do you live?",
    "product": "What have you bought?",
    "date": "On which day did that happen, as far as you remember it now?",
}
SAYS = {
    "greet": ("hello", "good morning", "hi"),
    "question": ("how long will that take?", "what does that cost?", "when is it there?"),
    "off_topic": ("lovely weather today", "by the way i was at a fair", "heard a good joke"),
    "second_goal": ("one more thing bothers me", "there is another thing", "something else too"),
    "change_mind": ("i changed my mind", "let us do it instead", "on second thought leave it"),
    "unavailable": ("is there any way to get a pony", "would it be possible to fly it in"),
    "confirm_back": ("just to be sure i got it", "you mean that one", "is that right"),
    "correct": ("that was wrong of me", "a correction from my side", "it should be different"),
    "reject": ("no not that", "nope", "nah leave that"),
    "repeat": ("as i said", "i already told you", "say that again"),
    "vague": ("not sure about it", "i don't know really", "no idea"),
    "escalate": ("get me your manager", "this is ridiculous", "a real person now"),
    "ack": ("okay", "sure", "fine"),
    "thank": ("thanks a lot", "i appreciate it", "thank you"),
    "bye": ("bye", "goodbye then", "take care"),
    "hold": ("a moment", "let me look"),
    "inform": ("it is", "that would be", "we have"),
}
ANY_TIME = ("question", "off_topic", "change_mind", "confirm_back", "ack")
FILLER = "well then so it goes on my side here we were told to write this down for them all".split()
FAILS = ("Sorry, that has failed.", "Unfortunately we are unable to do it.", "That is an error.")


def drawn_truth(seed: int) -> dict[str, float]:
    """Parameters from their priors."""
    chance = np.random.default_rng([seed, 1])
    truth = {}
    for p in PARAMETERS:
        if p.link == "logit" and p.block != "affect":
            truth[p.name] = float(chance.beta(STRENGTH * p.mean, STRENGTH * (1 - p.mean)))
            continue
        onto = {"log": math.log, "logit": lambda m: math.log(m / (1 - m))}.get(p.link, float)
        centre = onto(p.mean)
        value = float(chance.normal(centre, p.sd))
        back = {"log": math.exp, "logit": lambda x: 1 / (1 + math.exp(-x))}.get(p.link, float)
        truth[p.name] = back(value)
    truth["len_mu"] = max(truth["len_mu"], 2.4)  # what is said has to fit in
    truth["len_sd"] = min(truth["len_sd"], 0.6)
    while truth["thank"] + truth["bye"] < 1:  # each closing has one or the other
        truth["thank"], truth["bye"] = chance.beta(2.4, 1.6), chance.beta(1.2, 2.8)
    return truth


def twin_log(truth, n: int, seed: int, labelled: bool = True) -> list[Conversation]:
    """n conversations of users with these parameters."""
    chance = np.random.default_rng([seed, 2])
    return [_talk(f"twin-{seed}-{i}", truth, chance, labelled) for i in range(n)]


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _talk(name, truth, chance, labelled) -> Conversation:
    def yes(p: float) -> bool:
        return bool(chance.random() < p)

    verbosity = chance.normal(0, truth["verb_sd"])
    patience = math.exp(chance.normal(truth["patience_mu"], truth["patience_sd"]))
    known = {slot: f"{slot[0]}{chance.integers(100, 999)}" for slot in SLOTS}
    formal_habit = truth["formality"]
    messages, told, frustration, failures = [], {}, 0.0, 0
    heard, failed, repeated = "", False, False
    second, greets, place, goes_on, closing = (
        yes(truth["second_goal"]), yes(truth["greet_only"]), 0, True, False,
    )  # fmt: skip
    last_turns = 5 + int(chance.integers(0, 5))
    while goes_on:
        asked = next((slot for slot, ask in ASKS.items() if heard.endswith(ask)), None)
        acts, slots = [], []
        if place == 0 and greets:
            acts = ["greet"]
        else:
            business = place == (1 if greets else 0)
            acts += [act for act in ANY_TIME if yes(truth[act])]
            acts += ["unavailable"] if yes(truth["unavailable_request"]) else []
            acts += ["correct"] if place and yes(truth["correct"]) else []
            acts += ["hold"] if yes(0.08) else []
            acts += ["second_goal"] if second and business else []
            if asked and not business:
                lean = 0.4 if len(heard.split()) > 8 else -0.4
                base = min(max(truth["answer"], 1e-3), 1 - 1e-3)
                if yes(_sigmoid(math.log(base / (1 - base)) + lean)):
                    slots.append(asked)
                    others = [slot for slot in SLOTS if slot != asked]
                    slots += [str(chance.choice(others))] if yes(truth["extra_slot"]) else []
                acts += ["vague"] if yes(truth["vague"]) else []
                acts += ["reject"] if yes(truth["reject_offer"]) else []
            if business and yes(truth["open_slot"]):
                slots.append(str(chance.choice(SLOTS)))
            if failed:
                acts += ["repeat"] if yes(truth["repeat_request"]) else []
        feels = "sorry" in heard.lower()
        frustration = max(
            0.0,
            truth["fr_decay"] * frustration
            + truth["fr_gain_fail"] * failed
            + truth["fr_gain_repeat"] * repeated
            - truth["empathy_relief"] * feels,
        )
        failures += failed
        over = frustration - patience
        acts += ["escalate"] if yes(_sigmoid(truth["escalate_fr"] * over)) else []
        leaves = yes(_sigmoid(truth["quit_fr"] * over))
        closing = place >= last_turns and not leaves
        if closing:
            acts += _farewell(truth, yes)
            goes_on = False
        goes_on = goes_on and not leaves
        pairs = []
        for slot in slots:
            if slot in told and yes(truth["wrong_slot"]):
                known[slot] = f"{slot[0]}{chance.integers(100, 999)}"
            told[slot] = known[slot]
            pairs.append((slot, known[slot]))
        text = _words(acts, pairs, truth, verbosity, failures, asked, yes, chance, formal_habit)
        names = tuple(acts + (["inform"] if pairs else [])) or ("other",)
        labels = {"intents": names, "slots": tuple(pairs)} if labelled else {}
        messages.append(Message("user", text, **labels))
        if goes_on:
            before = heard
            failed = yes(0.25)
            heard = str(chance.choice(FAILS)) + " " if failed else "Noted. " if yes(0.5) else ""
            wanted = str(chance.choice(SLOTS)) if yes(0.7) and (place or not greets) else ""
            heard += ASKS.get(wanted, "I am on it.")
            repeated = heard == before
            said = [("desk", "fail", "none", "none")] if failed else []
            said += [("desk", "request", wanted, "?")] if wanted else []
            messages.append(Message("assistant", heard, acts=tuple(said) if labelled else ()))
        place += 1
    return Conversation(name, tuple(messages))


def _farewell(truth, yes) -> list[str]:
    """Thanks, a bye or both, in the shares that the truth says of those who close."""
    thank, bye = truth["thank"], truth["bye"]
    both = thank + bye - 1
    if yes(both):
        return ["thank", "bye"]
    return ["thank"] if yes((thank - both) / (1 - both)) else ["bye"]


def _words(acts, pairs, truth, verbosity, failures, asked, yes, chance, formality) -> str:
    said = [str(chance.choice(SAYS[act])) for act in acts]
    if pairs:
        said.append(str(chance.choice(SAYS["inform"])) + " " + " and ".join(v for _, v in pairs))
    text = " ".join(said)
    if asked and yes(truth["short_answer"]):
        text = " ".join(v for _, v in pairs) or " ".join(text.split()[:2]) or "hm"
        text = " ".join(text.split()[:2])
    else:
        mean = truth["len_mu"] + verbosity + truth["len_per_slot"] * len(pairs)
        wanted = mean + truth["len_fr"] * failures + chance.normal(0, truth["len_sd"])
        if yes(truth["politeness"]):
            text += " please"
        missing = max(3, round(math.expm1(min(wanted, 4.5)))) - len(text.split())
        filler = [str(word) for word in chance.choice(FILLER, size=max(0, missing))]
        words = [*filler, *text.split()] or ["hm"]
        text = " ".join(words[max(0, -missing) :] if missing < 0 else words) or "hm"
    if yes(formality):
        text = text[0].upper() + text[1:] + ("" if text[-1] in "?!." else ".")
    return text + "!" if yes(truth["emphasis"]) else text
