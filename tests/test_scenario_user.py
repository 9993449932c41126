"""The user of a scenario: what brings its responses out, what meets it, and who fails."""

import inspect
import json
from pathlib import Path

import gymnasium as gym
import pytest
from scenario_agents import BIKE, LINES, NULLS, acts, insider, null, talk

import convgym  # noqa: F401  registers
from convgym.envs.scenario_records import scenarios_of
from convgym.envs.scenarios import ScenariosEnv
from convgym.users.persona import BUILT_IN

ID = "ConvGym/Scenarios-v0"
PACKAGED = tuple(record.id for record in scenarios_of())
CALM = {"persona": {"patience": 1.0, "cooperativeness": 0.0}, "style": "plain"}
"""Says nothing unasked, and stays."""


def bike(**change):
    return ScenariosEnv([{**BIKE, **change}], **CALM)


# -- the user answers what it is asked -------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "response"),
    [
        ("When did that happen?", ("inform", "when")),
        ("Where was the bike?", ("inform", "where")),
        ("What was it worth?", ("inform", "worth")),
        ("Is it insured with another company?", ("dont_know",)),
        ("Do you like cheese?", ("dont_know",)),
        ("The weather has been quite mild lately.", ("ask_back",)),
        ("Your bike was stolen.", ("echoed",)),
        ("bike money theft police claim form street night lock frame wheel colour", ("confused",)),
        ("", ("nudge",)),
        ("Hello!", ("greet",)),
    ],
)
def test_what_the_agent_says_decides_what_the_user_says(message, response):
    env = bike()
    env.reset(seed=1)
    info = env.step(message)[4]
    assert acts(info)[0] == response


def test_answers_come_in_the_order_of_the_questions():
    questions = {"when": "When was it?", "where": "Where was it?", "worth": "What was it worth?"}
    for order in (["when", "where", "worth"], ["worth", "when", "where"], ["where", "worth"]):
        env = bike()
        env.reset(seed=1)
        said = [acts(env.step(questions[name])[4]) for name in order]
        assert said == [[("inform", name)] for name in order]


def test_a_greeting_brings_nothing_out():
    for seed in range(30):
        env = ScenariosEnv([BIKE])
        env.reset(seed=seed)
        names = {act[-1] for act in acts(env.step("Hello, how can I help you today?")[4])}
        assert not names & {"when", "where", "worth", "how-long"}


def test_a_statement_that_meets_the_request_brings_out_the_next_question():
    env = bike()
    env.reset(seed=1)
    assert acts(env.step("We pay the worth of stolen bikes, minus 50 euros.")[4]) == [
        ("question", "how-long")
    ]
    # Now that is open, and comes back until it is met.
    assert acts(env.step("Our company is proud of its service.")[4])[0][0] in ("insist", "ask_back")
    info = env.step("The money takes ten days.")[4]
    assert ("insist", "how-long") not in acts(info)


def test_asked_again_it_says_the_same_in_other_words():
    env = bike()
    env.reset(seed=1)
    first = env.step("What was it worth?")[0]
    again, *_, info = env.step("Sorry, how much was the bike worth again, in euros?")
    assert acts(info) == [("insist", "worth")] and again != first and "900" in again
    assert acts(env.step("Sorry, how much was the bike worth again, in euros?")[4])[0] == (
        "repeated",
    )


def test_a_reading_back_is_confirmed():
    env = bike()
    env.reset(seed=1)
    env.step("When did it happen?")
    assert acts(env.step("Did it happen on Tuesday night?")[4]) == [("affirm",)]


def test_an_early_goodbye_ends_in_a_protest_or_in_failure():
    ends = set()
    for seed in range(20):
        env = ScenariosEnv([BIKE], style="plain")
        env.reset(seed=seed)
        _, _, terminated, _, info = env.step("Goodbye.")
        assert not info["success"]
        ends.add((terminated, acts(info)[0][0]))
    assert ends == {(True, "bye"), (False, "protest")}


def test_patience_ends_whatever_is_repeated():
    for seed in range(20):
        for message in ("", "Do you like cheese?", "One moment, please."):
            _, infos = talk(ScenariosEnv([BIKE]), lambda m, i, said=message: said, seed=seed)
            last = infos[-1]
            assert not last["success"]
            assert last["failure_reason"] in ("user_closed", "turn_cap")
    calls = ['{"name": "get_order", "arguments": {}}'] * 5
    env = ScenariosEnv([BIKE])
    env.reset(seed=1)
    infos = [env.step(call)[4] for call in calls]
    assert [info["errors"] for info in infos] == [1, 2, 3, 4, 5]
    assert infos[-1]["failure_reason"] == "error_budget_spent"


def test_without_criteria_everything_has_to_come_out():
    lines = [
        "When was it?",
        "Where was it?",
        "What was it worth?",
        "We pay the worth of stolen bikes, minus 50 euros.",
        "The money takes ten days.",
    ]
    for left_out in (None, 0, 1, 2):
        env = bike()
        env.reset(seed=1)
        for number, line in enumerate(lines):
            if number != left_out:
                info = env.step(line)[4]
        assert info["success"] is (left_out is None)
    free = [{**r, "optional": True} if isinstance(r, dict) else r for r in BIKE["user_responses"]]
    env = bike(user_responses=free)
    env.reset(seed=1)
    assert env.step(lines[3])[4]["success"], "nothing else has to come out"


def test_what_a_response_needs_comes_first():
    responses = [
        "I want to leave the gym.",
        {"id": "moved", "text": "I have moved away.", "when": "why"},
        {"id": "no", "text": "No way, that is too long.", "act": "objection", "when": "four weeks"},
        {"id": "proof", "text": "What do you need?", "needs": ["moved", "agent: at once"]},
    ]
    env = bike(user_responses=responses)
    env.reset(seed=1)
    env.step("You may leave the gym at once, with a proof of that.")
    assert acts(env.step("Why do you want to leave the gym, though?")[4]) == [("inform", "moved")]
    assert acts(env.step("The notice at this gym is four weeks.")[4]) == [("objection", "no")]
    said = acts(env.step("You may leave at once, without any notice at all.")[4])
    assert said == [("question", "proof")]


# -- criteria --------------------------------------------------------------------------------------

PAYS = {"success": {"must_mention": ["10 days"], "must_ask": [["worth", "value"]],
                    "must_not_mention": ["20 days"], "after": {"10 days": ["worth"]}}}  # fmt: skip


def played(*lines):
    env = bike(metadata=PAYS)
    env.reset(seed=1)
    for line in lines:
        _, reward, terminated, truncated, info = env.step(line)
        if terminated or truncated:
            break
    return info["success"], reward, info["failure_reason"], info["violations"]


def test_criteria_decide_on_success():
    ask, pay, days = (
        "What was it worth?", "We pay what the stolen bike was worth.", "The money takes 10 days.",
    )  # fmt: skip
    assert played(ask, pay, days) == (True, 1.0, "", "")
    assert played(days, pay, ask)[0] is False, "too early: the worth was not out yet"
    assert played(days, ask, pay, "As I said, the money takes 10 days from now.")[0] is True
    assert played(ask, pay, "Does it take 10 days?", "It doesn't take 10 days.")[0] is False
    assert played(ask, pay, "It takes 20 days.", days) == (False, 0.0, "violation",
                                                            "must_not_mention")  # fmt: skip


def test_a_verdict_in_python_replaces_the_criteria():
    class Polite(ScenariosEnv):
        """Content is not enough: somebody has to say sorry."""

        def answer(self, episode, reply):
            episode.notes["sorry"] = episode.notes.get("sorry", False) or reply.says("sorry")
            return super().answer(episode, reply)

        def succeeded(self, episode):
            return super().succeeded(episode) and episode.notes["sorry"]

    for sorry in ("I am sorry. ", ""):
        env = Polite([{"id": "a", "user_responses": ["Why is my bill higher?"]}], **CALM)
        env.reset(seed=1)
        info = env.step(f"{sorry}Your bill is higher because the price went up by 3 euros.")[4]
        assert acts(info)[-1][0] in ("thank", "bye") and info["success"] is bool(sorry)


# -- who succeeds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", PACKAGED)
def test_who_knows_the_scenario_succeeds(scenario):
    assert set(LINES) == set(PACKAGED)
    env = gym.make(ID, disable_env_checker=True)
    infos = [insider(env, scenario, seed) for seed in range(20)]
    infos += [insider(env, scenario, 1, persona=name) for name in BUILT_IN]
    assert all(info["success"] for info in infos), [info["failure_reason"] for info in infos]
    assert all(info["oracle_length"] <= info["turn"] + 2 for info in infos)


@pytest.mark.parametrize("name", NULLS)
def test_who_does_not_listen_fails(name):
    """On each packaged scenario ten times, and again with its criteria taken away."""
    path = Path(inspect.getfile(ScenariosEnv)).with_name("scenarios.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = [{**json.loads(line), "metadata": {}} for line in lines]
    for scenarios in (None, bare):
        env = ScenariosEnv(scenarios, randomize_scenarios=False, style="plain")
        for number in range(10 * len(PACKAGED)):
            info = null(env, name, number, task_id=f"train-{number}")
            assert not info["success"], f"{name} in {info['task_id']}, seed {number}"


# -- who writes as people and models do ------------------------------------------------------------

FLUENT = {
    "late-parcel": (
        "I'm so sorry to hear that your parcel hasn't arrived yet! I completely understand how "
        "frustrating that must be. To help you track it down, could you please provide me with "
        "your order number? It should be in your confirmation email and starts with a letter.",
        "Thank you for providing that! I've looked up order K4471 and I can see it's being "
        "handled by Swift Post. The good news is that your parcel is scheduled to arrive this "
        "**Friday**. Is there anything else I can help you with today?",
        "Unfortunately, we're unable to speed up the delivery itself. However, you do have the "
        "option of collecting your parcel from our depot in Harbour Street one day earlier, on "
        "Thursday. Would you like me to arrange that for you?",
    ),
    "cracked-mug": (
        "Oh no, I'm really sorry to hear your mug arrived cracked! Let me help you sort this "
        "out. Could you let me know when it was delivered?",
        "Thanks for letting me know. Since you've reported the damage within 30 days, you're "
        "eligible for a full refund to your original payment card — and you don't even need to "
        "send the mug back.",
        "The refund should reach your card within 5 working days. Is there anything else I can "
        "do for you?",
    ),
    "slow-internet": (
        "I'm sorry to hear about your internet troubles. Let's see if we can figure out what's "
        "going on. First, is the slow speed happening on all of your devices, or just one?",
        "Thanks, that's helpful. Have you tried restarting your router? If so, did it make any "
        "difference?",
        "Okay. Could you take a look at the router and tell me what colour the light is, and "
        "whether it's solid or blinking?",
        "Thanks for checking. A blinking orange light indicates a fault with the line itself. "
        "I'll arrange for a technician to visit within the next two days, free of charge.",
        "No, a new router wouldn't help in this case, since the fault is with the line and not "
        "the router. The technician will take care of it within two days.",
    ),
    "moved-away": (
        "I'd be happy to help you with that. May I ask the reason you'd like to cancel?",
        "I see. Normally there's a four-week notice period, but since you've moved more than "
        "30 km away, you can cancel with immediate effect.",
        "All we need is proof of your new address, for example a utility bill or registration "
        "certificate. Once we receive it, your membership will be terminated immediately.",
        "Your membership ends immediately, and a copy of your registration certificate is all "
        "the proof we need.",
    ),
    "two-medicines": (
        "I understand you'd like to know whether these are safe together. Which blood pressure "
        "tablets are you taking?",
        "I'm sorry, but I'm not able to advise on whether those medicines can be combined. "
        "Please speak to our pharmacist on duty at extension 40, available until 20:00.",
        "I understand, but only our pharmacist can answer that safely; you can reach them at "
        "extension 40 until 8 pm.",
        "In the meantime you could rest, drink plenty of water and put a cold compress on your "
        "forehead.",
    ),
    "phone-plan": (
        "Great! To find the right plan for you: how much data do you use per month, and what's "
        "your budget?",
        "Thanks! How much would you like to spend each month?",
        "Based on your 8 GB usage, I'd recommend Plan M, which gives you 10 GB for 15 a month.",
        "I understand it's a bit more than you're paying now. However, Plan S only has 3 GB, "
        "which wouldn't be enough for you, so Plan M is the cheapest plan that covers your "
        "usage.",
        "There's no long commitment: you can cancel Plan M every month.",
    ),
    "fractions": (
        "Happy to help! What have you tried so far?",
        "Good effort! Adding the tops and bottoms doesn't work because thirds and fourths are "
        "different sized pieces. You first need a common denominator. What number do both 3 "
        "and 4 divide into?",
        "Adding the tops and the bottoms mixes pieces of different size: you need the same "
        "denominator for both fractions first.",
        "Exactly! Both fractions have the denominator 12 now, so just add the numerators.",
    ),
    "dinner-for-six": (
        "Of course! How many people will be joining, and what time would you like to come?",
        "Wonderful. And at what time should I book it?",
        "Great, I have a table for six on Friday at 7:30 pm. May I have a name for the "
        "booking?",
        "No problem at all, we have several vegan dishes on our menu. What name should I put "
        "the reservation under?",
        "Thank you, Okafor! Your table for six is confirmed for Friday at 7:30 pm, and the "
        "kitchen knows about the two vegan guests.",
    ),
    "checkup": (
        "Of course! We have two openings this week: Tuesday at 9:00 or Thursday at 16:30. "
        "Which would you prefer?",
        "Thursday at 16:30 it is, then. May I have your name, please?",
        "Thank you, Dana. You're booked in for Thursday at 16:30.",
        "Yes, please bring your insurance card with you.",
    ),
    "cancelled-flight": (
        "I'm sorry about that! Could you give me your booking code, please?",
        "Thank you. How many people are travelling, and by when do you need to arrive in "
        "Lisbon?",
        "And by when do you have to be there?",
        "There's a flight on Saturday at 8:10, arriving in Lisbon at 10:45. Shall I book it "
        "for you?",
        "No, the replacement flight is completely free of charge. You're booked on the 8:10 on "
        "Saturday.",
    ),
    "locked-out": (
        "I'm sorry you can't log in. What message do you see when you try?",
        "Let's reset it then. Please click on 'Forgot password' and you'll get an email with a "
        "link.",
        "Have you checked your spam or junk folder?",
        "Great! Click the link in that email, set a new password, and you should be able to "
        "log in again.",
    ),
}
"""Long and polite, with a question hung on, as chat agents write. The user was mended with them in
sight, so they guard and do not measure."""


@pytest.mark.parametrize("scenario", FLUENT)
def test_fluent_agents_get_through(scenario):
    env = ScenariosEnv(persona={"cooperativeness": 0.5, "patience": 0.6}, style="plain")
    env.reset(seed=5, options={"scenario_id": scenario})
    for line in FLUENT[scenario]:
        _, reward, terminated, _, info = env.step(line)
        if terminated:
            break
    assert (reward, terminated, info["success"]) == (1.0, True, True)
