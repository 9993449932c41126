"""A parametric user who talks to a scripted agent: logs whose 36 true parameters are known.

It is no LogSimulator, and was not written to suit one:

    phrases     its own, as people say such things; a terse user's are cut off
    answers     hang on how the question is worded, questions on how curt the agent is
    people      differ in how often they do what they do at any time
    habits      asking for a moment, and signing every message: no parameter names them

Each of these leaves the mean of what it bends where the parameter says.
"""

import math

import numpy as np

from convgym.calibration.parameters import PARAMETERS, STRENGTH
from convgym.conversation import Conversation, Message

ASKS = {
    "order": ("Which order?", "Could you tell me which of your orders this is about, please?"),
    "email": ("Your address?", "What is the address that you have signed up with at our shop?"),
    "city": ("Where do you live?", "And in which city, for our records, do you live at present?"),
    "product": ("What did you buy?", "So that I find it, what exactly was it that you bought?"),
    "date": ("On which day?", "On which day did that happen, as far as you remember it now?"),
}
SLOTS = tuple(ASKS)
FAILS = (
    "Sorry, that has failed.", "Our system is down.", "I could not find it.", "It was refused.",
)  # fmt: skip
FEELS = ("I am sorry to hear that.", "How annoying for you.", "I understand.")
SAYS = {
    "greet": ("hello", "hey there", "morning", "hi it's me again", "dear team"),
    "question": ("how long does it take?", "what's the price", "do you ship abroad?", "why"),
    "off_topic": ("it's pouring here", "my cat sits on the keyboard", "what a day"),
    "second_goal": ("also my invoice is wrong", "besides, my login broke", "one more thing"),
    "change_mind": ("actually cancel that", "wait, take the blue one", "i'd rather keep it"),
    "unavailable": ("can you make it free", "send it by drone", "i need it yesterday"),
    "confirm_back": ("so it comes monday?", "did i get that right", "that's the blue one, yes?"),
    "correct": ("scratch that", "i gave you the wrong one", "it's the other one"),
    "reject": ("no", "i don't want that", "that won't do", "not for me"),
    "repeat": ("see above", "i've told you twice", "like i said"),
    "vague": ("dunno", "can't remember", "hard to say", "i'd have to look"),
    "escalate": ("let me talk to your boss", "this is a joke", "worst service ever"),
    "ack": ("ok", "got it", "fair enough", "yep"),
    "thank": ("thanks", "cheers", "thank you so much", "you've been great"),
    "bye": ("bye", "see you", "have a nice day", "so long"),
    "hold": ("one sec", "hang on", "let me get my glasses"),
}  # fmt: skip
TELLS = ("", "it's", "that would be", "i think it's")
PLEASE = ("please", "if you don't mind")
ANY_TIME = ("question", "off_topic", "change_mind", "confirm_back", "ack")
FILLER = "well so the thing on my side is we were told to write this down for them all".split()
NAMES = ("kim", "sam", "alex", "jo")
ALIKE = 8.0
"""How alike people are: a user's own rates are Beta(ALIKE p, ALIKE (1 − p))."""
SWAY = 0.5
"""Share of what a rate has room for by which wording moves it, up as often as down."""


def drawn_truth(seed: int) -> dict[str, float]:
    """Parameters from their priors."""
    chance = np.random.default_rng([seed, 1])
    truth = {}
    for p in PARAMETERS:
        if p.link == "logit" and p.block != "affect":
            truth[p.name] = float(chance.beta(STRENGTH * p.mean, STRENGTH * (1 - p.mean)))
            continue
        onto = {"log": math.log, "logit": lambda m: math.log(m / (1 - m))}.get(p.link, float)
        back = {"log": math.exp, "logit": _sigmoid}.get(p.link, float)
        truth[p.name] = back(float(chance.normal(onto(p.mean), p.sd)))
    while truth["thank"] + truth["bye"] < 1:  # each closing has one or the other
        truth["thank"], truth["bye"] = chance.beta(2.4, 1.6), chance.beta(1.2, 2.8)
    return truth


def twin_log(truth, n: int, seed: int, labelled: bool = True) -> list[Conversation]:
    """n conversations of users with these parameters."""
    chance = np.random.default_rng([seed, 2])
    return [_talk(f"twin-{seed}-{i}", truth, chance, labelled) for i in range(n)]


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _swayed(p: float, up: bool) -> float:
    return p + SWAY * min(p, 1 - p) * (1 if up else -1)


def _talk(name, truth, chance, labelled) -> Conversation:
    def yes(p: float) -> bool:
        return bool(chance.random() < p)

    def one_of(things):
        return things[int(chance.integers(len(things)))]

    verbosity = chance.normal(0, truth["verb_sd"])
    patience = math.exp(chance.normal(truth["patience_mu"], truth["patience_sd"]))
    own = {a: chance.beta(ALIKE * truth[a] + 1e-9, ALIKE * (1 - truth[a])) for a in ANY_TIME}
    signs = one_of(NAMES) if yes(0.2) else ""
    known = {slot: f"{slot[0]}{chance.integers(100, 999)}" for slot in SLOTS}
    second, greets = yes(truth["second_goal"]), yes(truth["greet_only"])
    messages, told, frustration, failures, place = [], {}, 0.0, 0, 0
    heard, asked, long, curt, failed, repeated, feels = "", "", False, None, False, False, False
    last_turns = 5 + int(chance.integers(0, 5))
    while True:
        acts, slots = [], []
        business = place == greets
        if place < greets:
            acts = ["greet"]
        else:
            for act in ANY_TIME:
                swayed = act == "question" and curt is not None
                acts += [act] if yes(_swayed(own[act], curt) if swayed else own[act]) else []
            acts += ["unavailable"] if yes(truth["unavailable_request"]) else []
            acts += ["correct"] if place and yes(truth["correct"]) else []
            acts += ["hold"] if yes(0.08) else []
            acts += ["second_goal"] if second and business else []
            if asked and yes(_swayed(truth["answer"], not long)):
                slots.append(asked)
                others = [slot for slot in SLOTS if slot != asked]
                slots += [one_of(others)] if yes(truth["extra_slot"]) else []
            acts += ["vague"] if asked and yes(truth["vague"]) else []
            acts += ["reject"] if asked and yes(truth["reject_offer"]) else []
            acts += ["repeat"] if failed and yes(truth["repeat_request"]) else []
            slots += [one_of(SLOTS)] if business and not asked and yes(truth["open_slot"]) else []
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
        closes = place >= last_turns and not leaves
        acts += _farewell(truth, yes) if closes else []
        pairs = []
        for slot in dict.fromkeys(slots):
            if slot in told and yes(truth["wrong_slot"]):
                known[slot] = f"{slot[0]}{chance.integers(100, 999)}"
            told[slot] = known[slot]
            pairs.append((slot, known[slot]))
        said = [one_of(SAYS[act]) for act in acts]
        said += [f"{one_of(TELLS)} {' and '.join(value for _, value in pairs)}"] if pairs else []
        said += [signs] if signs else []
        wanted = truth["len_mu"] + verbosity + truth["len_per_slot"] * len(pairs)
        wanted += truth["len_fr"] * failures + chance.normal(0, truth["len_sd"])
        text = _worded(said, wanted, bool(asked), truth, chance, yes)
        names = tuple(acts + (["inform"] if pairs else [])) or ("other",)
        labels = {"intents": names, "slots": tuple(pairs)} if labelled else {}
        messages.append(Message("user", text, **labels))
        if leaves or closes:
            return Conversation(name, tuple(messages))
        before, failed, feels, curt = heard, yes(0.25), yes(0.15), yes(0.5)
        asked = one_of(SLOTS) if yes(0.7) and place >= greets else ""
        long = yes(0.5)
        heard = (one_of(FAILS) + " " if failed else "") + (one_of(FEELS) + " " if feels else "")
        heard += ("" if curt else "Noted. ") + (ASKS[asked][long] if asked else "I am on it.")
        repeated = heard == before
        done = [("desk", "fail", "none", "none")] if failed else []
        done += [("desk", "request", asked, "?")] if asked else []
        messages.append(Message("assistant", heard, acts=tuple(done) if labelled else ()))
        place += 1


def _farewell(truth, yes) -> list[str]:
    """Thanks, a bye or both, in the shares that the truth says of those who close."""
    thank, bye = truth["thank"], truth["bye"]
    both = thank + bye - 1
    if yes(both):
        return ["thank", "bye"]
    return ["thank"] if yes((thank - both) / (1 - both)) else ["bye"]


def _worded(said, wanted, asked, truth, chance, yes) -> str:
    """What is said, with filler before or behind it or cut off, so that it is as long as wanted."""
    chance.shuffle(said)
    words = " ".join(said).split()
    polite = PLEASE[int(chance.integers(2))].split() if yes(truth["politeness"]) else []
    if asked and yes(truth["short_answer"]):
        words = words[: 1 + yes(0.5)] or ["hm"]
    else:
        size = max(1, round(math.expm1(min(wanted, 5.5))))
        if size > 2:
            words = polite + words if yes(0.5) else words[: size - len(polite)] + polite
        filler = [str(word) for word in chance.choice(FILLER, size=max(0, size - len(words)))]
        words = (filler + words if yes(0.5) else words + filler)[:size]
    text = " ".join(words)
    if yes(truth["formality"]):
        text = text[0].upper() + text[1:] + ("" if text[-1] in "?!." else ".")
    return text + "!" if yes(truth["emphasis"]) else text
