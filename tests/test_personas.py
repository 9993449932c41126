"""Personas: eleven traits in [0, 1], by hand, by name, by mapping, by draw and from ranges."""

import json
import math
from collections import Counter

import pytest
from driven import every_split, hidden, make
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.engine.keys import child, draw
from convgym.engine.tasks import SPLITS
from convgym.envs.episode_setup import persona_or_ranges
from convgym.errors import InvalidConfiguration
from convgym.randomization import PersonaGenerator
from convgym.users.persona import (
    ALIASES,
    BUILT_IN,
    EASY_ENDS,
    HUNDRED,
    TRAITS,
    Persona,
    draw_levels,
    drawn_levels,
    hardened,
    is_unfamiliar,
    named_persona,
    own_style,
    persona_of,
    persona_of_levels,
)

LEVEL = st.integers(0, HUNDRED)
LEVELS = st.tuples(*[LEVEL] * len(TRAITS))
RANGE = st.tuples(LEVEL, LEVEL).map(lambda ends: (min(ends) / 100, max(ends) / 100))
RANGES = st.dictionaries(st.sampled_from(TRAITS), RANGE)
KEY = st.integers(0, 2**64 - 1)

quick = settings(max_examples=60, deadline=None, derandomize=True)
every_trait = pytest.mark.parametrize("trait", TRAITS)


# -- by hand ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [-0.01, 1.01, 2, math.nan, math.inf, "high", None, True, [0.5]])
@every_trait
def test_a_bad_trait_is_refused_by_name(trait, level):
    with pytest.raises(InvalidConfiguration, match=trait):
        Persona(**{trait: level})


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", 3), ("name", None), ("traits", "calm"), ("traits", (1,)), ("traits", None)],
)
def test_a_bad_word_is_refused_by_name(field, value):
    with pytest.raises(InvalidConfiguration, match=field):
        Persona(**{field: value})


def test_a_persona_is_written_with_names():
    with pytest.raises(TypeError):
        Persona(0.5)
    with pytest.raises(TypeError, match="openness"):
        Persona(openness=0.5)


def test_the_middle_is_where_nothing_is_said():
    levels = dict(zip(TRAITS, Persona().levels, strict=True))
    assert levels.pop("typo_rate") == 0
    assert set(levels.values()) == {50}


@quick
@given(LEVELS)
def test_levels_are_hundredths_and_come_back(levels):
    persona = persona_of_levels(levels, "somebody")
    assert persona.levels == levels
    assert persona.name == "somebody"
    assert all(
        getattr(persona, trait) == at / 100 for trait, at in zip(TRAITS, levels, strict=True)
    )


@quick
@given(st.fixed_dictionaries({}, optional={trait: st.floats(0, 1) for trait in TRAITS}))
def test_every_number_from_0_to_1_is_a_trait(traits):
    persona = Persona(**traits)
    for trait, level in zip(TRAITS, persona.levels, strict=True):
        assert abs(getattr(persona, trait) - level / 100) <= 0.005 + 1e-12
        assert 0 <= level <= HUNDRED


def test_a_persona_survives_json():
    for persona in (*BUILT_IN.values(), Persona(traits=["in a hurry"], patience=0.123)):
        assert persona_of(json.loads(json.dumps(persona.to_dict()))) == persona
        assert hash(persona) == hash(persona_of(persona.to_dict()))


def test_it_writes_as_its_traits_say():
    style = own_style(Persona(formality=0.9, verbosity=0.1, typo_rate=0.35).levels, 70)
    assert (style.formality, style.verbosity, style.typo_rate, style.diversity) == (90, 10, 35, 70)


# -- by name and by mapping ------------------------------------------------------------------------


def test_the_built_in_personas_are_five_and_far_apart():
    assert set(BUILT_IN) == {
        "patient_expert",
        "frustrated_novice",
        "busy_professional",
        "curious_learner",
        "skeptical_critic",
    }
    for name, persona in BUILT_IN.items():
        assert named_persona(name) is persona
        assert persona.name == name
        assert persona.traits
        for other in BUILT_IN.values():
            apart = sum(abs(a - b) for a, b in zip(persona.levels, other.levels, strict=True))
            assert other is persona or apart > 150
    assert named_persona("sceptical_critic") is BUILT_IN[ALIASES["sceptical_critic"]]


@pytest.mark.parametrize("name", ["nobody", "", None, 3, ["patient_expert"]], ids=repr)
def test_an_unknown_name_is_refused_with_those_there_are(name):
    with pytest.raises(InvalidConfiguration, match="patient_expert") as refused:
        named_persona(name)
    assert repr(name) in str(refused.value)


def test_a_persona_of_anything_sensible():
    expert = BUILT_IN["patient_expert"]
    assert persona_of(expert) is expert
    assert persona_of("patient_expert") is expert
    assert persona_of({}) == Persona()
    assert persona_of({"patience": 1}) == Persona(patience=1)
    assert persona_of({"base": "patient_expert"}) == expert
    changed = persona_of({"base": "patient_expert", "patience": 0, "name": "x", "traits": ["y"]})
    assert (changed.patience, changed.name, changed.traits) == (0, "x", ("y",))
    assert changed.levels[1:] == expert.levels[1:]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("nobody", "nobody"),
        (3, "3"),
        (None, "None"),
        (["patience"], "patience"),
        ({"openness": 0.5}, "openness"),
        ({1: 0.5}, "1"),
        ({"patience": 2}, "patience"),
        ({"patience": "low"}, "patience"),
        ({"base": "nobody"}, "nobody"),
        ({"base": None}, "None"),
    ],
    ids=str,
)
def test_what_is_no_persona_is_refused_by_name(given, named):
    with pytest.raises(InvalidConfiguration, match=named):
        persona_of(given)


# -- by draw ---------------------------------------------------------------------------------------


def test_a_drawn_persona_is_uniform_in_every_trait():
    drawn = [draw_levels(draw(k, 4, 0, 0) << 32) for k in range(5000)]
    for levels in zip(*drawn, strict=True):
        assert (min(levels), max(levels)) == (0, HUNDRED)
        tenths = Counter(min(level // 10, 9) for level in levels)
        assert max(tenths.values()) < 1.35 * min(tenths.values())
        assert abs(sum(levels) / len(levels) - 50) < 4.5 * 29.2 / math.sqrt(len(levels))


@quick
@given(KEY)
def test_a_key_draws_one_persona(key):
    assert draw_levels(key) == draw_levels(key)
    assert len(draw_levels(key)) == len(TRAITS)


@quick
@given(LEVELS, LEVEL, LEVEL)
def test_difficulty_moves_what_makes_work_hard_and_nothing_else(levels, one, other):
    easier, harder = hardened(levels, min(one, other)), hardened(levels, max(one, other))
    assert hardened(levels, 50) == levels
    for trait, before, low, high in zip(TRAITS, levels, easier, harder, strict=True):
        assert 0 <= low <= HUNDRED and 0 <= high <= HUNDRED
        if trait not in EASY_ENDS:
            assert low == high == before
            continue
        easy = EASY_ENDS[trait]
        # Further from the easy end; beside the ends a level can only go back towards them.
        if 100 * min(easy, 1 - easy) <= before <= 100 * max(easy, 1 - easy):
            assert (high - low) * (0.5 - easy) >= 0


# -- a sort of person that is held out ------------------------------------------------------------

ACCURACY, EXPERTISE, ASSERTIVENESS = (
    TRAITS.index(name) for name in ("accuracy", "expertise", "assertiveness")
)
OTHERS = [*set(range(len(TRAITS))) - {ACCURACY, EXPERTISE, ASSERTIVENESS}]
every_name = pytest.mark.parametrize("split", SPLITS)


@pytest.mark.parametrize(
    ("accuracy", "expertise", "assertiveness", "unfamiliar"),
    [
        (0, 100, 100, True), (32, 68, 68, True), (33, 68, 68, False), (32, 67, 68, False),
        (32, 68, 67, False), (50, 50, 50, False), (100, 100, 100, False), (0, 0, 0, False),
    ],
)  # fmt: skip
def test_careless_stubborn_experts_are_unfamiliar(accuracy, expertise, assertiveness, unfamiliar):
    levels = [50] * len(TRAITS)
    levels[ACCURACY], levels[EXPERTISE], levels[ASSERTIVENESS] = accuracy, expertise, assertiveness
    assert is_unfamiliar(levels) == unfamiliar


@every_name
@pytest.mark.parametrize("difficulty", [-1, 0, 25, 50, 75, 100])
def test_they_are_met_in_test_persona_always_and_nowhere_else(split, difficulty):
    met = Counter()
    for key in range(3000):
        levels = drawn_levels(child(1, key), split, difficulty)
        assert len(levels) == len(TRAITS)
        assert all(type(level) is int and 0 <= level <= HUNDRED for level in levels)
        met[is_unfamiliar(levels)] += 1
    assert set(met) == {split == "test_persona"}


@quick
@given(KEY, st.sampled_from(list(SPLITS)), st.integers(-1, HUNDRED))
def test_only_what_makes_them_unfamiliar_is_moved(key, split, difficulty):
    drawn = draw_levels(key) if difficulty < 0 else hardened(draw_levels(key), difficulty)
    levels = drawn_levels(key, split, difficulty)
    assert [levels[place] for place in OTHERS] == [drawn[place] for place in OTHERS]
    if split != "test_persona" and not is_unfamiliar(drawn):
        assert levels == drawn


def test_within_their_sort_they_differ():
    met = [drawn_levels(child(2, key), "test_persona") for key in range(4000)]
    for place, (low, high) in (
        (ACCURACY, (0, 32)), (EXPERTISE, (68, 100)), (ASSERTIVENESS, (68, 100)),
    ):  # fmt: skip
        values = Counter(levels[place] for levels in met)
        assert (min(values), max(values)) == (low, high)
        assert len(values) == high - low + 1
    others = [drawn_levels(child(2, key), "train") for key in range(4000)]
    thirds = Counter(levels[ACCURACY] < 33 for levels in others)
    assert 0.25 < thirds[True] / 4000 < 0.36, "the careless are met elsewhere, if less stubborn"


@every_split
def test_an_environment_meets_them_in_their_split_alone(environment_id, split):
    env = make(environment_id, split=split, observation="features", privileged=True)
    for seed in range(60):
        persona = hidden(env.reset(seed=seed)[1])["persona"]
        assert is_unfamiliar([persona[trait] for trait in TRAITS]) == (split == "test_persona")


def test_a_persona_that_is_asked_for_comes_in_every_split():
    env = make("ConvGym/CustomerService-v0", split="test_persona", privileged=True)
    _, info = env.reset(seed=1, options={"persona": "patient_expert"})
    levels = [hidden(info)["persona"][trait] for trait in TRAITS]
    assert tuple(levels) == BUILT_IN["patient_expert"].levels


# -- from ranges -----------------------------------------------------------------------------------


@quick
@given(st.integers(), RANGES, st.integers(1, 5))
def test_generated_traits_lie_in_their_ranges_and_the_seed_decides_them(seed, ranges, count):
    one, other = (PersonaGenerator(seed, **ranges) for _ in range(2))
    personas = [one.sample() for _ in range(count)]
    assert personas == [other.sample() for _ in range(count)]
    for persona in personas:
        for trait in TRAITS:
            low, high = ranges.get(trait, (0.0, 1.0))
            assert low <= getattr(persona, trait) <= high
            assert isinstance(getattr(persona, trait), float)


@quick
@given(KEY, RANGES, RANGES)
def test_a_key_names_a_draw_whatever_was_drawn_before(key, ranges, narrower):
    fresh, used = PersonaGenerator(1, **ranges), PersonaGenerator(2, **ranges)
    used.sample()
    assert fresh.draw(key) == used.draw(key) == used.sample(key) == used.sample(key)
    short = {f"{trait}_range": ends for trait, ends in narrower.items()}
    persona = used.sample(key, **short)
    for trait in TRAITS:
        low, high = narrower.get(trait, ranges.get(trait, (0.0, 1.0)))
        assert low <= getattr(persona, trait) <= high
        if trait not in narrower:
            assert getattr(persona, trait) == getattr(fresh.draw(key), trait)
    assert fresh.draw(key) == used.draw(key), "a range of one draw stays with that draw"


@every_trait
def test_both_ends_of_a_range_occur(trait):
    generator = PersonaGenerator(3, **{trait: (0.2, 0.23)})
    seen = Counter(getattr(generator.sample(), trait) for _ in range(200))
    assert set(seen) == {0.2, 0.21, 0.22, 0.23}
    assert min(seen.values()) > 20


def test_different_seeds_generate_different_people():
    firsts = {PersonaGenerator(seed).sample().levels for seed in range(100)}
    assert len(firsts) == 100
    generator = PersonaGenerator(0)
    assert len({generator.sample().levels for _ in range(100)}) == 100


def test_a_generator_from_a_mapping():
    generator = PersonaGenerator.of({"base": "patient_expert", "patience": (0.1, 0.2), "name": "x"})
    expert = BUILT_IN["patient_expert"]
    for key in range(50):
        persona = generator.draw(key)
        assert 0.1 <= persona.patience <= 0.2
        assert persona.levels[1:] == expert.levels[1:]
    assert PersonaGenerator.of({"base": "sceptical_critic"}).draw(1).levels == (
        BUILT_IN["skeptical_critic"].levels
    )
    with pytest.raises(InvalidConfiguration, match="nobody"):
        PersonaGenerator.of({"base": "nobody"})


def test_a_persona_with_a_range_in_it_is_a_generator():
    assert persona_or_ranges("patient_expert") is BUILT_IN["patient_expert"]
    assert isinstance(persona_or_ranges({"patience": [0, 1]}), PersonaGenerator)
    fixed = persona_or_ranges({"patience": 1, "traits": ["calm"]})
    assert isinstance(fixed, Persona)
    generator = PersonaGenerator(1)
    assert persona_or_ranges(generator) is generator


@pytest.mark.parametrize(
    "ranges",
    [
        {"openness": (0, 1)},
        {"patience": (0.5, 0.4)},
        {"patience": (-0.1, 0.4)},
        {"patience": (0, 1.1)},
        {"patience": (0, math.nan)},
        {"patience": (0, 0.5, 1)},
        {"patience": ()},
        {"patience": "low"},
        {"patience": None},
        {"patience": (False, True)},
        {"patience": ("0", "1")},
    ],
    ids=str,
)
def test_a_bad_range_is_refused_by_name(ranges):
    (trait,) = ranges
    with pytest.raises(InvalidConfiguration, match=trait):
        PersonaGenerator(0, **ranges)
    with pytest.raises(InvalidConfiguration, match=trait):
        PersonaGenerator(0).sample(**{f"{trait}_range": ranges[trait]})


def test_a_range_of_one_draw_is_named_as_one():
    with pytest.raises(InvalidConfiguration, match="patience_range"):
        PersonaGenerator(0).sample(patience=(0, 1))
