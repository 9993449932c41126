"""Agents for the packaged scenarios: one that knows each of them, and many that know nothing."""

import json

LINES = {
    "late-parcel": {
        "number": [
            "Could you give me your order number?",
            "What is the order number on the label?",
        ],
        "sooner": [
            "Your order is with Swift Post and the parcel will arrive on Friday.",
            "Friday it is: Swift Post delivers the parcel then.",
        ],
        "": [
            "I can't speed it up, but you may collect the parcel at our depot in Harbour "
            "Street on Thursday.",
            "The depot in Harbour Street has your parcel from Thursday on. It arrives on "
            "Friday otherwise.",
        ],
    },
    "cracked-mug": {
        "arrived": [
            "I'm sorry about the mug. When did it arrive?",
            "On which day was the mug delivered?",
        ],
        "how-long": [
            "You will get a full refund for the cracked mug, and you can keep it.",
            "We refund the whole price of the mug to your card.",
        ],
        "": [
            "The money reaches your card within 5 working days.",
            "It takes up to 5 working days until the refund is on the card.",
        ],
    },
    "slow-internet": {
        "r2": [
            "Is it slow on all devices, for instance on your phone too?",
            "Do your phone and your laptop both have slow internet?",
        ],
        "r3": [
            "Have you restarted the router?",
            "Did you try to restart the router already?",
        ],
        "r4": [
            "What does the light on the router do?",
            "Which colour does the light on the router have?",
        ],
        "r5": [
            "The blinking orange light means that the internet line has a fault.",
            "Orange means that your line is faulty, so the internet is slow.",
        ],
        "": [
            "No, a new router would not help. A technician comes within two days and repairs "
            "the line free of charge, and then your internet is fast again.",
            "A technician will repair the internet line within two days, a new router is not "
            "needed.",
        ],
    },
    "checkup": {
        "time": [
            "Which day and what time would suit you?",
            "Do you prefer the morning or the afternoon?",
        ],
        "name": [
            "May I have your name, please?",
            "Under what name shall I put it?",
        ],
        "bring": [
            "You have a check-up on Thursday at 16:30.",
            "I've put you down for Thursday at 16:30.",
        ],
        "": [
            "Please bring your insurance card to the check-up. See you on Thursday at 16:30.",
            "Your insurance card is all that you have to bring on Thursday at 16:30.",
        ],
    },
    "cancelled-flight": {
        "r2": [
            "What is your booking code?",
            "Could you tell me the booking code of the flight?",
        ],
        "noon": [
            "When do you have to be there?",
            "By when do you have to arrive on Saturday?",
        ],
        "r4": [
            "How many travellers are you?",
            "How many adults travel?",
        ],
        "pay": [
            "There is a flight to Lisbon on Saturday at 8:10, which arrives at 10:45.",
            "I can put you on the Saturday flight to Lisbon at 8:10.",
        ],
        "": [
            "No, the new flight costs nothing, because yours was cancelled. You are on the "
            "Saturday flight to Lisbon at 8:10.",
            "You don't pay anything for the new flight to Lisbon, it replaces the cancelled one.",
        ],
    },
    "moved-away": {
        "moved": [
            "May I ask why you want to cancel?",
            "What is the reason for leaving the gym?",
        ],
        "proof": [
            "Since you moved so far away, the membership ends at once.",
            "In that case your membership is cancelled immediately.",
        ],
        "": [
            "I need a proof of your new address, and the membership ends immediately.",
            "Send a proof of the new address, such as a rental contract; you are out at once.",
        ],
    },
    "fractions": {
        "tried": [
            "What have you tried so far?",
            "Can you show me your attempt?",
        ],
        "why": [
            "Two sevenths is smaller than a third, so the result can't be right, since you "
            "added a fourth to the third.",
            "Adding the numbers that way makes the fraction smaller, which is odd for a sum of "
            "a third and a fourth.",
        ],
        "so": [
            "Thirds and fourths are pieces of different size, so adding tops and bottoms mixes "
            "them. Fractions need a common denominator first.",
            "The pieces have different sizes; you need a common denominator before you add the "
            "tops.",
        ],
        "": [
            "Yes, exactly: both fractions have the same denominator now, twelve, and you only "
            "add the tops.",
            "Right, twelfths is a common denominator of both fractions, so now only the tops "
            "are added.",
        ],
    },
    "dinner-for-six": {
        "r2": [
            "How many guests will you be?",
            "For how many people is the table?",
        ],
        "r3": [
            "What time would you like to come?",
            "At what time shall I book the table?",
        ],
        "r4": [
            "We have a table free on Friday evening.",
            "Friday evening is possible, there is a nice table by the window.",
        ],
        "r5": [
            "Under which name may I book?",
            "What name shall I note for the table?",
        ],
        "": [
            "Vegan guests are no problem, our kitchen has five vegan dishes. The table for six "
            "is booked for Friday at half past seven.",
            "Our menu has vegan dishes. Your table for Friday evening is booked for six.",
        ],
    },
    "phone-plan": {
        "data": [
            "How much data do you use in a month?",
            "How many gigabytes do you need each month?",
        ],
        "budget": [
            "And what would you like to spend?",
            "What is your budget for a month?",
        ],
        "term": [
            "I recommend Plan M, with 10 GB for 15 a month.",
            "Plan M is the cheapest that is enough for you.",
        ],
        "": [
            "You can cancel Plan M each month, and it has enough data, 10 GB, while Plan S "
            "would be too small for eight gigabytes.",
            "It is three more than you pay now, but enough data. You can cancel monthly with "
            "Plan M.",
        ],
    },
    "locked-out": {
        "r2": [
            "What happens when you try to log in? Does it show an error about the password?",
            "Which message do you see when you log in?",
        ],
        "r3": [
            "Did you get a mail after you asked for a reset?",
            "Have you tried to reset the password by mail?",
        ],
        "r4": [
            "Have you looked into your spam folder for it?",
            "Could it be in the spam folder?",
        ],
        "": [
            "Open the link in that mail, choose a new password and log in again.",
            "The link in the reset mail lets you set a new password, then the login works.",
        ],
    },
    "two-medicines": {
        "called": [
            "Which tablets do you take?",
            "What are they called?",
        ],
        "meanwhile": [
            "I am no pharmacist, so please ask the pharmacist on duty at extension 40 about "
            "ibuprofen and ramipril.",
            "Only the pharmacist may tell you, at extension 40, whether ibuprofen and ramipril "
            "fit.",
        ],
        "": [
            "For the headache, rest and a cold compress often do good until you have reached "
            "the pharmacist.",
            "Rest, water and a cold compress help with a headache. The pharmacist at extension "
            "40 knows more.",
        ],
    },
}
"""Two ways each to bring out a response, by its id, and to meet what is left, by "".

Only what was said decides which comes next; a real policy would have to find out.
"""

NULLS = {
    "silence": ("",),
    "done": ('<tool_call>{"name": "end_conversation", "arguments": {}}</tool_call>',),
    "greet-only": ("Hello, how can I help you today?",),
    "goodbye": ("Goodbye.",),
    "one moment": ("One moment please.", "Let me check.", "Please hold on."),
    "refuse": (
        "I am sorry, but I cannot help with that.",
        "Unfortunately that is not possible.",
        "No, we don't do that.",
    ),
    "promise": ("I will take care of it right away.", "I will see to it.", "I'll handle this now."),
    "ask everything": (
        "Could you tell me your email address, your postcode, your order number, the reason and "
        "the new address?",
    ),
    "anything else": (
        "Is there anything else?",
        "Tell me more.",
        "Anything else I can help with?",
        "Please go on.",
        "What else is there?",
        "Could you give me more details?",
    ),
    "generic script": (
        "Hello, how can I help you?",
        "I am sorry to hear that. Could you please give me your name and order number?",
        "Thank you. Could you describe the problem in more detail?",
        "I understand. I have looked into your account and processed your request.",
        "Your issue has been resolved and you will receive a confirmation by email.",
        "It will take 3 to 5 business days.",
        "Is there anything else I can help you with?",
        "Thank you for contacting us. Have a nice day!",
    ),
    "heap of words": (
        "order refund parcel delivery account password internet router light table name price "
        "plan flight booking appointment tablets pharmacist fractions membership",
    ),
    "every answer": (
        "Your order is on its way. Your refund is done. Your password was reset. Your internet "
        "router gets a technician because of the line. Your table is booked for Friday. Your "
        "flight is free. Your appointment is on Thursday. Your plan is Plan M. Ask the pharmacist. "
        "Use a common denominator. Your membership ends at once.",
    ),
    "every question": (
        "What is your name, order number, booking code, data, budget, time, date, reason, and "
        "what have you tried and which tablets and which light and how many guests?",
    ),
    "parrot": ("{message}",),
    "polite parrot": (
        "I understand: {message} I will see to that right away for you, thank you for the message.",
    ),
    "asking parrot": ("Could you tell me more about that: {message}",),
    "policy aloud": ("{policy}",),
}
"""Replies in turn; {message} is what the user has just said, {policy} what the agent has read."""


class Insider:
    """Brings out one response after the other, and meets what is left."""

    def __init__(self, scenario):
        self.lines, self.said, self.used = LINES[scenario], set(), {}

    def reply(self, info):
        """What it says next."""
        self.said |= {act.get("value", "") for act in json.loads(info["user_acts"])}
        goal = next((one for one in self.lines if one and one not in self.said), "")
        self.used[goal] = self.used.get(goal, -1) + 1
        return self.lines[goal][self.used[goal] % 2]


def talk(env, reply, **reset):
    """(messages, infos) of an episode with an agent `reply(message, info)`."""
    message, info = env.reset(**reset)
    messages, infos, over = [message], [info], False
    while not over:
        message, _, terminated, truncated, info = env.step(reply(message, info))
        over = terminated or truncated
        messages.append(message)
        infos.append(info)
    return messages, infos


def insider(env, scenario, seed, **options):
    """The last info of an episode that the insider played."""
    agent = Insider(scenario)
    options["scenario_id"] = scenario
    return talk(env, lambda message, info: agent.reply(info), seed=seed, options=options)[1][-1]


def null(env, name, seed, **options):
    """The last info of an episode that one of `NULLS` played."""

    def reply(message, info):
        lines = NULLS[name]
        policy = env.unwrapped.system_prompt.partition("\n\nTools:")[0]
        line = lines[info["turn"] % len(lines)]
        return line.replace("{message}", message).replace("{policy}", policy)

    return talk(env, reply, seed=seed, options=options)[1][-1]


BIKE = {
    "id": "bike",
    "topic": "insurance",
    "context": "A stolen bike is to be paid for.",
    "user_responses": [
        "My bike was stolen.",
        {"id": "when", "text": "It happened on Tuesday night."},
        {"id": "where", "text": "In Park Lane, right in front of my house."},
        {"id": "worth", "text": ["It was worth 900 euros.", "I paid 900 euros for it."]},
        {"id": "how-long", "text": "How long does it take until I get my money?"},
        "Thank you, bye.",
    ],
}
"""A scenario without criteria: three answers, and a question of its own."""


def acts(info):
    return [tuple(act.values()) for act in json.loads(info["user_acts"])]
