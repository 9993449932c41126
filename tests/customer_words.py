"""Customers' wordings as tests of taggers and writers need them: held out, filled in, off topic."""

from convgym.domains.customer_service import tasks, wording
from convgym.domains.customer_service.user_understanding import user_examples
from convgym.domains.customer_service.world import world
from convgym.language.style import Style
from convgym.language.voice import RETRIEVAL, Spoken
from convgym.language.writing import WriteRequest

HELD_OUT = user_examples("held_out")
SINGLE = [(text, acts) for text, acts in HELD_OUT if len(acts) == 1]
SEVERAL = [(text, acts) for text, acts in HELD_OUT if len(acts) > 1]

_SLOTS = {"inform_placed": "date"} | {
    f"inform_{slot}": slot for slot in ("email", "postcode", "order", "item", "category", "address")
}


def request_for(acts, number, split="train"):
    """What a writer is asked for, were these the acts of a turn of task `number`."""
    shop, task = world(), tasks.draw_task(split, number)
    said = [(act, _SLOTS.get(act, "")) for act in sorted(acts)]
    spoken = tuple(
        Spoken(act, slot, wording.act_value(shop, task, act) if slot else "") for act, slot in said
    )
    draft = wording.user_voices()["train"].say(spoken, Style(), number * 7919 + 5, 1, RETRIEVAL)
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
