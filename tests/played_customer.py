"""A stand-in for a language model that plays the customer: it reads its role by keywords."""

import re

from convgym.users.generative import RULES

WISHES = {
    "where the order is": "Where is my order, and when does it come?",
    "order of yours cancelled": "I would like to cancel my order.",
    "want to send back": "I would like to return an item.",
    "another address": "I need to change the delivery address of my order.",
    "exchanged for": "I would like to exchange an item that I ordered.",
    "refund has not come": "My refund has not arrived yet.",
    "end a subscription": "I want to end my subscription.",
    "locked out": "I am locked out of my account, please unlock it.",
    "has a defect": "I want to make a claim under the warranty.",
    "do not agree with a charge": "I dispute a charge of yours.",
}
"""What it says for a want that holds these words."""
BECAUSE = {
    "it is damaged": "It arrived damaged.",
    "it is the wrong item": "You sent me the wrong item.",
    "you have changed your mind": "I changed my mind.",
    "it came too late": "It came too late.",
    "it does not turn on any more": "It does not turn on any more.",
    "a part of it has come loose": "A part has come loose, and it rattles.",
    "it has had a crack": "I dropped it, and now it has a crack.",
    "water has got into it": "Water got into it.",
    "you were charged twice": "I was charged twice.",
    "you do not recognise it": "I do not recognise the charge.",
    "the amount is higher": "The amount is too high.",
}
DATE = re.compile(
    r"\d (january|february|march|april|may|june|july|august|september|october|november|december)"
)
REFUSED = re.compile(
    r"sorry|unfortunately|cannot|can't|afraid|regret|not possible|could not|unable|not able|"
    r"does not allow|does not let|nothing can be done|would have liked"
)
OFFERED = re.compile(
    r"instead|pickup|credit as|goodwill|alternative|what i can do|once it has|after it|waitlist|"
    r"label|pause|could offer|can offer|option|another way"
)


def wants_of(role):
    """What is wanted, in the order of the requests."""
    text = role.partition("What you want\n")[2].partition("\n\n")[0]
    numbered = re.findall(r"^\d\. (.*)$", text, re.MULTILINE)
    return numbered or [text]


def place_of(role):
    """(request that the chat is about, from 0; whether it is settled)."""
    where = role.partition("Where you are\n")[2]
    number = re.search(r"\d", where)
    return (int(number[0]) - 1 if number else 0), "is settled" in where


class Role:
    """What the prompt says to whoever plays the customer of the present request."""

    def __init__(self, text):
        self.at, self.settled = place_of(text)
        self.wants = wants_of(text)
        self.want = self.wants[self.at]
        self.known = text.partition("What you know\n")[2].partition("\n\n")[0]
        about = rf"For request {self.at + 1}: (.*?)(?: For request| You do not know what the shop)"
        found = re.search(about, self.known)
        self.record = found[1] if found else self.known if len(self.wants) == 1 else ""

    def wish(self, later=0):
        want = self.wants[self.at + later]
        return next(words for key, words in WISHES.items() if key in want)

    def find(self, pattern, text=None):
        found = re.search(pattern, self.known if text is None else text)
        return found[1] if found else ""

    @property
    def number(self):
        return self.find(r"(?:number is|number of the \w+ is|next message:) ([WSC]\d+)",
                         self.record)

    @property
    def described(self):
        """Item, plan or amount with its date."""
        found = re.search(
            r"(?:for|instead:|back to you:|It is) the (?:charge of )?([\w$.' -]+?), "
            r"(?:ordered|started|made) on ([^.]+)\.",
            self.record,
        )
        return f"It is the {found[1]}, from {found[2]}." if found else "I do not know more."

    @property
    def detail(self):
        because = next((said for key, said in BECAUSE.items() if key in self.want), "")
        address = self.find(r"another address: ([^.]+)", self.want)
        variant = self.find(r"the same in ([^.]+)", self.want)
        return because or (address and f"Please send it to {address}.") or f"In {variant}, please."


def customer(messages):
    """One message of the customer, as a small model might write it."""
    role = Role(messages[0].content.partition(RULES)[0])
    heard = messages[-1].content.lower()
    if len(messages) == 2:
        return f"Hello. {role.wish()}"
    if role.settled:
        return f"Thank you. One more thing: {role.wish(1)}"
    said = [message.content for message in messages[2::2]]
    raised = max((place for place, text in enumerate(said) if role.wish() in text), default=0)
    since = said[raised:]
    told = DATE.search(heard) and role.wish().startswith("Where")
    if told or (since[-1] == "Yes, please." and "?" not in heard):
        return "Thank you, goodbye."
    if re.search(r"e-?mail", heard):
        return "My e-mail address is " + role.find(r"account is (\S+)\. ") + "."
    if re.search(r"postcode|postal|zip", heard):
        return "My postcode is " + role.find(r"[Yy]ou(?:r postcode is| say) (\d+)") + "."
    goodbye = "" if role.at + 1 < len(role.wants) else " Goodbye."
    if "Is there no other way?" in since and OFFERED.search(heard):
        return f"All right, I accept that offer.{goodbye}"
    if REFUSED.search(heard):
        if since[-1] == "Is there no other way?":
            return f"That is a pity, but I accept that.{goodbye}"
        return "Is there no other way?"
    if re.search(r"\byes\b|confirm|shall i|should i|go ahead|would you like me to", heard):
        return "Yes, please."
    if re.search(r"reason|why|wrong|fault|defect|what made|what has happened|which variant|"
                 r"which size|colour|(which|what|new|full) (delivery )?address|address should|"
                 r"where should|exchange it for|instead of what", heard):
        return role.detail
    if re.search(r"which|number|item|subscription|charge|order", heard):
        own = role.number and role.number not in " ".join(since)
        return f"The number is {role.number}." if own else role.described
    if re.search(r"how can i|what can i|how may i|anything else", heard):
        return role.wish()
    return "OK."
