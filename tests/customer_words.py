"""Customers' wordings as tests of taggers and writers need them: held out, filled in, off topic."""

import json
from pathlib import Path

from convgym.domains.customer_service.customer import Want, Who
from convgym.domains.customer_service.user_understanding import user_examples
from convgym.domains.customer_service.world import CATEGORIES, COLOURS, ITEMS, PLANS, SIZES
from convgym.language.figures import MONTHS
from convgym.language.phrases import packaged_banks
from convgym.language.retrieval import packaged_indexes
from convgym.language.style import Style
from convgym.language.voice import RETRIEVAL, Spoken, Voice
from convgym.language.writing import WriteRequest

PACKAGE = "convgym.domains.customer_service"
HELD_OUT = user_examples("held_out")
SINGLE = [(text, acts) for text, acts in HELD_OUT if len(acts) == 1]
SEVERAL = [(text, acts) for text, acts in HELD_OUT if len(acts) > 1]

SLOTS = {"inform_placed": "date", "inform_started": "date", "inform_charged": "date"} | {
    f"inform_{slot}": slot
    for slot in (
        *("email", "postcode", "order", "item", "category", "address"),
        *("subscription", "plan", "charge", "amount", "variant"),
    )
}
"""The placeholder of each act that states a value."""
KINDS = {
    "subscription": "subscription",
    "access": "",
    "billing": "charge",
}
"""Of the records that a workflow is about; an order where it is none of these."""


def voice(part="train"):
    """The customer's wordings of one part."""
    banks = packaged_banks(PACKAGE, "user_phrases.toml")
    return Voice(banks[part], packaged_indexes(PACKAGE, "user_turns.toml")[part])


def messages(part):
    """(text, acts) of the labelled customers' messages: `development` or `held_out`."""
    path = Path(__file__).parent / "data" / f"customer_messages_{part}.jsonl"
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [(row["text"], frozenset(row["acts"])) for row in rows]


def value(slot, number):
    """The value of a slot in the `number`-th example."""
    item, category, cents = ITEMS[number % len(ITEMS)]
    return {
        "email": f"dana.lee{number}@example.com",
        "postcode": f"{20000 + number * 37 % 70000}",
        "order": f"W{10000 + number * 61 % 80000}",
        "subscription": f"S{10000 + number * 67 % 80000}",
        "charge": f"C{10000 + number * 71 % 80000}",
        "item": item,
        "category": CATEGORIES[category],
        "plan": PLANS[number % len(PLANS)][0],
        "amount": f"${cents // 100}.{10 + number % 90}",
        "date": f"{1 + number % 28} {MONTHS[number % 12]}",
        "address": f"{1 + number % 180} Mill Lane, Derby",
        "variant": (*SIZES, *COLOURS)[number % (len(SIZES) + len(COLOURS))],
    }[slot]


def who(number=0, impostor=False):
    """A customer in plain words."""
    return Who(
        name="Dana Lee",
        email=value("email", number),
        postcode=value("postcode", number),
        wrong_postcode="99999",
        impostor=impostor,
    )


def want(workflow, number=0, **others):
    """A request in plain words; `others` are written over what is usual."""
    kind = KINDS.get(workflow, "order")
    details = {"address": value("address", number), "exchange": value("variant", number)}
    details |= {"return": "damaged", "warranty": "loose", "billing": "twice"}
    label = {"order": "item", "subscription": "plan", "charge": "amount"}.get(kind, "")
    usual = Want(
        workflow=workflow,
        kind=kind,
        knowledge="number",
        id=value(kind, number) if kind else "",
        wrong_id=value(kind, number + 1) if kind else "",
        label=value(label, number) if kind else "",
        date=value("date", number) if kind else "",
        vague=value("category", number) if kind == "order" else "",
        detail=details.get(workflow, ""),
        terms=(),
    )
    return usual | others


def request_for(acts, number):
    """What a writer is asked for, were these the acts of the `number`-th turn."""
    said = [(act, SLOTS.get(act, "")) for act in sorted(acts)]
    spoken = tuple(Spoken(act, slot, value(slot, number) if slot else "") for act, slot in said)
    draft = voice().say(spoken, Style(), number * 7919 + 5, 1, RETRIEVAL)
    history = (("Agent", "Hello, how can I help?"),)
    return WriteRequest(spoken, draft, Style(), {}, history, number)


def filled(text, request):
    """A wording with the request's values in it."""
    for _, slot, value in request.spoken:
        if slot:
            text = text.replace("{" + slot + "}", value)
    return text


OFF_TOPIC = """\
The stock market fell by two percent after the announcement.
Photosynthesis turns sunlight into chemical energy.
The capital of Australia is Canberra, not Sydney.
I think the referee made a terrible call in the second half.
Preheat the oven and whisk the eggs with the sugar.
Once upon a time there was a dragon who lived in a cave.
The mitochondria is the powerhouse of the cell.
My favourite novel is the one about the whale.
Water boils at a lower temperature on high mountains.
She plays the violin in the city orchestra.
To install the library, run the command in your terminal.
The senator voted against the bill on Thursday.
Roses are red, violets are blue, sugar is sweet.
Let x be a prime number greater than seven.
The museum opens at nine and closes at five.
Bonjour, je voudrais un café s'il vous plaît.
Quarterly revenue grew thanks to strong demand in Asia.
He scored twice before the break and his team won the cup.
Elephants are the largest living land animals.
The Roman Empire collapsed over several centuries.
def add(a, b): return a + b
Translate the following sentence into Spanish.
As the sun set, the sailors began to sing an old song.
The patient should take one tablet twice daily with food.
Jupiter has dozens of moons, and Europa may hide an ocean.
Our flight to Lisbon was cancelled because of fog at the airport.
Knit two, purl two, and repeat until the end of the row.
The theory of relativity changed modern physics.
In chess, the bishop moves diagonally.
I would recommend visiting the old town and the cathedral.
The patient enzyme catalyses the reaction at body temperature.
Farmers are worried about the dry summer and the price of wheat.
A sonnet has fourteen lines and a fixed rhyme scheme.
The new phone has a better camera and a longer battery life.
Tune the guitar before you play the first chord.
Global temperatures have risen over the last century.
The jury found the defendant guilty on all counts.
Mix the paint well and apply two thin coats.
Penguins huddle together to keep warm in winter.
The train from Vienna to Prague takes about four hours.
We hold these truths to be self-evident.
The recipe calls for a pinch of salt and fresh basil.
lorem ipsum dolor sit amet consectetur adipiscing elit
Bitcoin mining consumes a great deal of electricity.
The professor will publish her findings in the spring.
Squats and lunges are good exercises for the legs.
Mozart wrote his first symphony when he was eight.
The volcano erupted without any warning last night.
Please write a poem about autumn leaves.
How do I train a neural network on images?
What is the tallest mountain in Africa?
The quick brown fox jumps over the lazy dog.
Inflation is expected to ease in the coming year.
Our choir meets on Tuesdays in the parish hall.
The detective looked at the muddy footprints and frowned.
Dolphins communicate with clicks and whistles.
He painted the ceiling of the chapel lying on his back.
Vote for me and I will lower your taxes.
asdf qwer zxcv uiop hjkl
The bridge was designed by a famous engineer.
""".splitlines()
"""Nothing a customer of this shop says; none of it is in `user_background.toml`."""
