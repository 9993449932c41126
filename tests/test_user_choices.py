"""Patience, knowledge and questions of the simulated user; and that its choices are logged."""

import math
from collections import Counter, defaultdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from single_task import (
    ADDRESS,
    DESK,
    EMAIL,
    HEARD_AS,
    LOOKS_UP,
    ORDER,
    POSTCODE,
    U,
    draw_task,
    knowledge,
    request,
)
from user_driven import (
    ANY_TALK,
    Recorded,
    begin,
    conversation,
    oracle_act,
    said_in,
    thorough,
)

from convgym.desk.vocabulary import LIST, QUESTIONS
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Said
from convgym.engine.keys import USER, draw
from convgym.errors import InvalidConfiguration
from convgym.users import decisions
from convgym.users.agenda import LONG_REPLY, LONG_WAIT, AgendaUser
from convgym.users.decisions import GRACE, LOG_UNIT, POINTS, STRIDE, DecisionModel
from convgym.users.persona import BUILT_IN, TRAITS, Persona, draw_levels

# -- patience --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_an_agent_without_fault_keeps_its_user(seed):
    user = Recorded()
    for number in range(500):
        user.draws = []
        key = draw(number, USER, seed, 0) << 32
        episode, engine = begin(draw_task("test", number), key, user, max_turns=30)
        while not episode.end:
            engine.apply(episode, DESK.turn(episode, oracle_act(episode)))
        assert episode.end in ("user_closed", "transferred")
        assert DESK.grade(episode).success
        assert not any(d.point == decisions.LEAVE and d.yes for d in user.draws)
        assert U["give_up"] not in (episode.user_turn.acts if episode.user_turn else ())


@pytest.mark.parametrize("persona", BUILT_IN.values(), ids=BUILT_IN)
def test_every_built_in_persona_can_be_served(persona):
    user = AgendaUser(U)
    for number in range(100):
        episode, engine = begin(draw_task("test", number), number, user, persona, max_turns=30)
        while not episode.end:
            engine.apply(episode, DESK.turn(episode, oracle_act(episode)))
        assert DESK.grade(episode).success


def test_the_patient_stay_longer():
    """Turns until a user leaves an agent that says nothing: more with more patience."""
    user, lengths = AgendaUser(U), []
    for patience in (0.0, 0.25, 0.5, 0.75, 1.0):
        turns = []
        for key in range(200):
            episode, engine = begin(draw_task("test", key), key, user, Persona(patience=patience))
            while not episode.end:
                engine.apply(episode, AgentTurn())
            turns.append(episode.turn)
        lengths.append(sum(turns) / len(turns))
    assert lengths == sorted(lengths)
    assert lengths[-1] > lengths[0] + 1


def spoken_to(episode, engine, *said, text=""):
    """How much more bothered the user is after a reply."""
    before = episode.user.bother
    engine.apply(episode, AgentTurn(tuple(Said(*one) for one in said), text=text))
    return episode.user.bother - before


ASK_EMAIL, ASK_POSTCODE = (acts.ASK, EMAIL), (acts.ASK, POSTCODE)
UNQUESTIONING = Persona(scepticism=0.0, curiosity=0.0, expertise=1.0, accuracy=1.0)


def plain():
    """A user that hardly ever misremembers or says more than it wants in its opening."""
    return Recorded(DecisionModel({"misremember": 0.0, "front_load": 0.0}))


def begun(key, persona=UNQUESTIONING, number=0, user=None):
    """An episode in which the user has said what it wants, and one question is answered."""
    hashed = draw(key, USER, 7, 7) << 31
    user = user or plain()
    episode, engine = begin(draw_task("train", number), hashed, user, persona)
    engine.apply(episode, AgentTurn((Said(acts.ASK, ADDRESS),)))
    return episode, engine


@pytest.mark.parametrize(
    ("first", "then", "bother"),
    [
        ((), ((acts.CHAT,),), 1),
        ((), ((acts.CHAT,), (acts.CHAT,)), 1),
        ((), ((acts.EXPLAIN,),), 1),
        ((), ((acts.CHAT,), ASK_POSTCODE), 0),
        ((), ((acts.EXPLAIN,), ASK_POSTCODE), 0),
        (((acts.APOLOGISE,),), ((acts.APOLOGISE,),), 1),
        (((acts.APOLOGISE,),), ((acts.APOLOGISE,), ASK_POSTCODE), 0),
        ((), ((acts.ASK_INTENT,),), 1),
        ((), ((acts.UNCLEAR,),), 1),
        ((), (), 1),
        ((ASK_EMAIL,), (ASK_EMAIL,), 1),
        ((), (ASK_POSTCODE,), 0),
    ],
    ids=str,
)
def test_idle_talk_bothers_where_it_is_all_there_is(first, then, bother):
    """Beside a question it is politeness; so is repetition what bothers, not the question."""
    met = 0
    for key in range(40):
        episode, engine = begun(key)
        if first:
            spoken_to(episode, engine, *first)
        if not (episode.end or episode.user.question):
            assert spoken_to(episode, engine, *then) == bother
            met += 1
    assert met > 25


def test_an_apology_soothes_once():
    for key in range(40):
        episode, engine = begun(key)
        if not episode.end and episode.user.bother:
            assert spoken_to(episode, engine, (acts.APOLOGISE,)) == -1


def test_long_replies_and_long_waits_bother():
    looked = 0
    for key in range(40):
        episode, engine = begun(key)
        if episode.end or episode.user.question:
            continue
        assert spoken_to(episode, engine, ASK_EMAIL, text="a" * LONG_REPLY) == 0
        if episode.end or episode.user.question:
            continue
        assert spoken_to(episode, engine, ASK_POSTCODE, text="a" * (LONG_REPLY + 1)) == 1
        if episode.end or episode.user.question:
            continue
        for _ in range(LONG_WAIT):
            engine.apply(episode, AgentTurn(calls=(Call(LIST, 0),)))
        assert episode.user_turn is None
        assert spoken_to(episode, engine, (acts.CHAT,), (acts.ASK, ORDER)) == 1
        looked += 1
    assert looked > 20


# -- what it knows, and what it wants to know ------------------------------------------------------


def heard(episode):
    """What the user has just said, by name, right or misremembered."""
    return {HEARD_AS[act] for act in episode.user_turn.acts}


@pytest.mark.parametrize("cooperativeness", [0.0, 0.5, 1.0])
def test_a_second_question_of_one_reply_is_answered_now_and_then(cooperativeness):
    persona = Persona(cooperativeness=cooperativeness, scepticism=0.0, accuracy=1.0)
    answered, n, user = 0, 600, plain()
    for key in range(n):
        user.draws = []
        episode, engine = begun(key, persona, user=user)
        if episode.end:
            continue
        user.draws = []
        spoken_to(episode, engine, ASK_EMAIL, ASK_POSTCODE)
        (chosen,) = [d.yes for d in user.draws if d.point == decisions.ANSWER_TOO]
        said = heard(episode)
        assert said & {"inform_email", "ask_why"}
        assert chosen == bool(said & {"inform_postcode"}) or "ask_why" in said
        answered += chosen
    p = DecisionModel().probability("answer_too", persona.levels)
    assert abs(answered / n - p) < 4.5 * math.sqrt(p * (1 - p) / n) + 0.02


@pytest.mark.parametrize("compliance", [0.0, 0.5, 1.0])
def test_a_number_is_looked_up_or_skipped_or_said_to_be_gone(compliance):
    persona = Persona(compliance=compliance, expertise=1.0, accuracy=1.0, cooperativeness=0.0)
    number = next(n for n in range(99) if request(draw_task("train", n)).knowledge == LOOKS_UP)
    said, user = Counter(), plain()
    for key in range(400):
        episode, engine = begun(key, persona, number, user)
        spoken_to(episode, engine, (acts.ASK, ORDER))
        turns = [heard(episode)]
        if episode.end or episode.user.question:
            continue
        spoken_to(episode, engine, (acts.CHAT,))
        turns.append(heard(episode))
        if "give_up" in turns[1]:
            continue
        if "hold" in turns[0]:
            said["inform_order" if "inform_order" in turns[1] else "no_luck"] += 1
            assert len(turns[1] & {"inform_order", "no_luck"}) == 1
        else:
            said["inform_item"] += 1
            assert "inform_item" in turns[0]
        if "inform_order" not in turns[1] and not episode.end:
            spoken_to(episode, engine, (acts.ASK, ORDER))
            assert U["inform_order"] not in episode.user_turn.acts
    total = sum(said.values())
    model = DecisionModel()
    look = model.probability("look_up", persona.levels)
    claim = model.probability("false_claim", persona.levels)
    expected = {
        "inform_order": look,
        "no_luck": (1 - look) * claim,
        "inform_item": (1 - look) * (1 - claim),
    }
    assert total > 350
    for outcome, p in expected.items():
        assert abs(said[outcome] / total - p) < 4.5 * math.sqrt(p * (1 - p) / total) + 0.01


CURIOUS = Persona(scepticism=1.0, expertise=0.0, curiosity=1.0, accuracy=1.0, patience=1.0)


def test_a_question_of_its_own_comes_once_and_wants_an_answer():
    asked, user = 0, plain()
    for key in range(300):
        episode, engine = begun(key, CURIOUS, user=user)
        if episode.end or episode.user.question:
            continue
        spoken_to(episode, engine, ASK_EMAIL)
        if U["ask_why"] not in episode.user_turn.acts:
            assert U["inform_email"] in episode.user_turn.acts
            continue
        assert U["inform_email"] not in episode.user_turn.acts
        asked += 1
        if key % 2:
            assert spoken_to(episode, engine, (acts.EXPLAIN,)) == 0
        else:
            assert spoken_to(episode, engine, ASK_EMAIL) == 1, "passed over"
        assert U["inform_email"] in episode.user_turn.acts or episode.end
        if not episode.end:
            spoken_to(episode, engine, ASK_POSTCODE)
            assert U["ask_why"] not in episode.user_turn.acts
    assert asked > 60


def test_what_was_asked_before_a_question_passed_over_is_dropped():
    dropped, user = 0, plain()
    for key in range(300):
        episode, engine = begun(key, CURIOUS, user=user)
        if episode.end or episode.user.question:
            continue
        spoken_to(episode, engine, ASK_EMAIL)
        if U["ask_why"] in episode.user_turn.acts:
            spoken_to(episode, engine, ASK_POSTCODE)
            assert "inform_email" not in heard(episode)
            if not (episode.end or episode.user.question):
                spoken_to(episode, engine, (acts.EXPLAIN,))
                assert "inform_email" not in heard(episode)
                dropped += 1
    assert dropped > 60


@thorough
@given(*ANY_TALK)
def test_questions_are_put_one_at_a_time(number, key, script):
    """Why and what-does-it-mean once each in a conversation, doubts and what-next too.

    An open doubt is put again where the agent wants to part over it.
    """
    opening, steps = conversation(number, key, script)
    parting = (acts.ASK_MORE, acts.CLOSE)
    once = [s for s in steps if not any(said.kind in parting for said in s.turn.said)]
    said, all_said = Counter(said_in([opening, *once])), Counter(said_in([opening, *steps]))
    assert said[U["ask_sure"]] <= 1
    assert all(all_said[U[question]] <= 1 for question in QUESTIONS if question != "ask_sure")
    for step in steps:
        if step.answer:
            assert len({U[question] for question in QUESTIONS} & set(step.answer.acts)) <= 1


# -- choices and their probabilities ---------------------------------------------------------------


def probability(point, traits, bother, base=None):
    """p(yes) from the formula in the docstring of `decisions`, on the grid of 2**-16."""
    model = POINTS[point]
    base = model.base if base is None else base
    logit = round(math.log(base / (1 - base)), 4)
    logit += sum(slope * (traits[name] / 100 - 0.5) for name, slope in model.tilts.items())
    logit += model.bother * (min(bother, decisions.MOST_BOTHER) - GRACE)
    rounded = math.floor(100 * min(max(logit, -8.0), 8.0) + 0.5 + 1e-9) / 100
    return round(65536 / (1 + math.exp(-rounded))) / 65536


@thorough
@given(*ANY_TALK)
def test_every_choice_is_drawn_and_logged_as_the_formula_says(number, key, script):
    opening, steps = conversation(number, key, script)
    for step in (opening, *steps):
        if step.answer is None:
            assert not step.draws
            continue
        state = step.before.user
        traits = dict(zip(TRAITS, state.persona, strict=True))
        turn = 0 if step is opening else state.turn
        expected = 0.0
        for drawn in step.draws:
            p = probability(drawn.point, traits, drawn.bother)
            number_drawn = draw(key, USER, turn, drawn.point + STRIDE * drawn.which)
            assert drawn.yes == (number_drawn < p * 2**32)
            logged = math.log(p if drawn.yes else 1.0 - p)
            assert drawn.log_prob * LOG_UNIT == pytest.approx(logged, abs=1e-6)
            expected += logged
        assert step.answer.log_prob <= 0.0
        assert step.answer.log_prob == pytest.approx(expected, abs=1e-6 * (1 + len(step.draws)))
        made = step.answer.decisions
        assert [(d.point, d.yes) for d in made] == [(d.point, d.yes) for d in step.draws]
        assert DecisionModel().log_prob(made, state.persona) == pytest.approx(
            step.answer.log_prob, abs=1e-9
        )
        indices = [(drawn.point, drawn.which) for drawn in step.draws]
        repeated = Counter(indices).most_common(1)
        assert not repeated or repeated[0][1] == 1 or len(step.turn.said) > 1


def opening_by_the_book(key, levels, known):
    """The opening turn written a second time: acts and the probability of the choices."""
    traits = dict(zip(TRAITS, levels, strict=True))
    log_prob = 0.0

    def chooses(name, which=0):
        nonlocal log_prob
        place = [point.name for point in POINTS].index(name)
        p = probability(place, traits, 0)
        yes = draw(key, USER, 0, place + STRIDE * which) / 2**32 < p
        log_prob += math.log(p if yes else 1 - p)
        return yes

    def recalls(slot):
        if known.misremembered[slot] >= 0 and chooses("misremember", 1 + slot):
            return known.misremembered[slot]
        return known.ladders[slot][0]

    if chooses("greet_only"):
        return (U["greet"],), log_prob
    turn = [U["greet"]] if chooses("greet") else []
    turn.append(known.request)
    if chooses("front_load"):
        if not known.must_look_up:
            turn.append(recalls(known.main_slot))
        if chooses("front_load", 1):
            turn.append(recalls(known.first_slot))
    return tuple(turn), log_prob


def test_the_opening_is_as_the_book_says():
    user, seen = AgendaUser(U), Counter()
    for key in range(3000):
        task = draw_task("train", key % 400)
        hashed = draw(key, USER, 9, 9) << 31
        episode, _ = begin(task, hashed, user)
        turn, log_prob = opening_by_the_book(hashed, draw_levels(hashed), knowledge(task))
        assert episode.user_turn.acts == turn
        assert episode.user_turn.log_prob == pytest.approx(log_prob, abs=1e-5)
        seen[len(turn)] += 1
    assert len(seen) == 4


def test_log_probabilities_are_frequencies():
    """What is logged as probability p happens about as often as p."""
    task, user = draw_task("train", 0), AgendaUser(U)
    happened, n = defaultdict(int), 20_000
    for key in range(n):
        turn = begin(task, draw(key, USER, 3, 3) << 32, user, Persona())[0].user_turn
        happened[turn.acts, turn.log_prob] += 1
    for (_, log_prob), count in happened.items():
        p = math.exp(log_prob)
        assert abs(count / n - p) < 4.5 * math.sqrt(p * (1 - p) / n)
    assert sum(math.exp(log_prob) for _, log_prob in happened) == pytest.approx(1.0, abs=0.01)


@given(st.sampled_from([point.name for point in POINTS]), st.floats(0, 1))
@example("thank", 0.0)
@example("thank", 1.0)
def test_a_base_replaces_the_probability_at_the_middle_of_every_trait(name, value):
    model, plain, middle = DecisionModel({name: value}), DecisionModel(), Persona().levels
    # Logits are kept in steps of 0.01 and none counts as further from 0 than 8.
    assert model.probability(name, middle) == pytest.approx(value, abs=0.003)
    place = [point.name for point in POINTS].index(name)
    threshold, yes, no = model.choice(place, middle)
    assert 0 < threshold < 2**32 and yes <= 0 and no <= 0
    for point in POINTS:
        if point.name != name:
            assert model.probability(point.name, middle) == plain.probability(point.name, middle)
    for trait, slope in POINTS[place].tilts.items():
        tilted = [
            model.probability(name, Persona(**{trait: value / 10}).levels) for value in range(11)
        ]
        assert tilted == sorted(tilted, reverse=slope < 0)


def test_every_tilt_shows():
    """No trait is without effect, and each moves its choices the way its sign says."""
    model, told = DecisionModel(), {"verbosity", "formality", "typo_rate"}  # these word things too
    for point in POINTS:
        for trait, slope in point.tilts.items():
            low, high = (
                model.probability(point.name, Persona(**{trait: end}).levels) for end in (0.0, 1.0)
            )
            assert (high > low) == (slope > 0) and high != low
            told.add(trait)
    assert told == set(TRAITS)


@pytest.mark.parametrize("base", [{"sulk": 0.5}, {"thank": 1.5}, {"thank": -0.1}], ids=str)
def test_a_bad_base_is_refused_by_name(base):
    with pytest.raises(InvalidConfiguration, match=next(iter(base))):
        DecisionModel(base)
