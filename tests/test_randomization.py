"""Difficulty, topics and people of episodes: chosen, drawn, scheduled and adapted."""

import json
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
from driven import (
    IDS,
    desk_of,
    every_id,
    every_split,
    every_topic,
    hidden,
    make,
    plain,
    splits_of,
    topic_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.domains.catalogue import domain_called
from convgym.engine.keys import USER, child, draw
from convgym.engine.tasks import BAND, SPLITS, TaskTable
from convgym.envs.wrappers import DomainRandomization
from convgym.errors import InvalidConfiguration
from convgym.language.style import Style
from convgym.randomization import (
    AdaptiveRanges,
    DomainRandomizer,
    PersonaGenerator,
)
from convgym.users.persona import BUILT_IN, EASY_ENDS, TRAITS, Persona, draw_levels

SHOP = domain_called("customer-service")
TOPICS = SHOP.topics
DRAWS = [draw(7, USER, k, 3) for k in range(2000)]
KEYS = [child(3, k) for k in range(300)]
quick = settings(max_examples=60, deadline=None, derandomize=True)
KEY = st.integers(0, 2**64 - 1)
UNIT = st.integers(0, 100).map(lambda level: level / 100)


# -- tables of tasks -------------------------------------------------------------------------------


@every_split
def test_a_table_holds_a_topic_and_a_hardness_of_every_task(environment_id, split):
    desk = desk_of(environment_id)
    rows = desk.table(split)
    assert rows.topic.shape == rows.hardness.shape == (SPLITS[split],)
    assert set(np.unique(rows.topic)) <= set(range(len(desk.topics)))
    assert rows.hardness.min() >= 0
    env = make(environment_id, split=split, observation="features", privileged=True)
    for seed in range(20):
        _, info = env.reset(seed=seed)
        told = hidden(info)
        if "requests" in told:
            assert topic_of(environment_id, info) == told["requests"][0]["workflow"]


@every_id
def test_a_topic_is_kept_and_all_of_its_tasks_can_come(environment_id):
    rows = desk_of(environment_id).table("validation")
    for topic in (-1, *np.unique(rows.topic)):
        fitting = set(np.flatnonzero((rows.topic == topic) | (topic < 0)).tolist())
        for difficulty in (-1, 0, 50, 100):
            chosen = {rows.choose(drawn, topic, difficulty) for drawn in range(0, 2**32, 2**17)}
            assert chosen == fitting


@every_split
def test_more_difficulty_is_harder_tasks(environment_id, split):
    rows = desk_of(environment_id).table(split)
    for topic in (-1, *np.unique(rows.topic)):
        means = [
            np.mean([rows.hardness[rows.choose(drawn, topic, level)] for drawn in DRAWS])
            for level in range(0, 101, 20)
        ]
        assert means == sorted(means)
        assert means[-1] > means[0] + 0.25


@quick
@given(
    st.sampled_from(IDS), st.sampled_from(DRAWS), st.integers(-1, 9), st.integers(0, 100),
    st.integers(0, 100),
)  # fmt: skip
def test_the_same_draw_is_a_harder_task_with_more_difficulty(name, drawn, topic, one, other):
    rows = desk_of(name).table("train")
    topic = topic if topic in rows.topic else -1
    low, high = (rows.choose(drawn, topic, level) for level in (min(one, other), max(one, other)))
    assert rows.hardness[low] <= rows.hardness[high]


def test_a_difficulty_is_a_band_of_the_tasks_in_order():
    """Two thirds of the episodes come from the band, the others from all tasks."""
    count = 1000
    rows = TaskTable(np.zeros(count, np.int64), np.arange(count)[::-1] // 4)
    for level in (0, 30, 100):
        chosen = np.array([rows.hardness[rows.choose(d, 0, level)] for d in DRAWS]) / (count / 4)
        begin = (100 - BAND) / 100 * level / 100
        inside = (chosen >= begin) & (chosen <= begin + BAND / 100)
        assert 1 - inside.mean() == pytest.approx((100 - BAND) / 100 / 3, abs=0.03)


# -- ranges that adapt -----------------------------------------------------------------------------


def test_bounds_widen_with_successes_and_narrow_with_failures():
    ranges = AdaptiveRanges(("a", "b"), buffer=10)
    assert (ranges.bounds, ranges.width) == ({"a": 0, "b": 0}, 0.0)
    for success in [True] * 8 + [False] * 2:
        ranges.record("a", success)
    assert ranges.bounds == {"a": 5, "b": 0}, "eight in ten are enough"
    for success in [True] * 7 + [False] * 3:
        ranges.record("a", success)
    assert ranges.bounds == {"a": 5, "b": 0}, "seven in ten move nothing"
    for success in [True] * 5 + [False] * 4:
        ranges.record("a", success)
    assert ranges.bounds == {"a": 5, "b": 0}, "nothing moves before the buffer is full"
    ranges.record("a", False)
    assert ranges.bounds == {"a": 0, "b": 0}, "five in ten are too few"
    for _ in range(10):
        ranges.record("a", False)
    assert ranges.bounds == {"a": 0, "b": 0}, "no bound goes below 0"
    for _ in range(1000):
        ranges.record("b", True)
    assert ranges.bounds == {"a": 0, "b": 100}, "nor above 1"
    assert ranges.width == 0.5


@quick
@given(KEY, st.lists(st.integers(0, 20).map(lambda n: 5 * n), min_size=1, max_size=6))
def test_one_parameter_stands_at_its_bound_and_the_others_within(key, bounds):
    names = [f"p{n}" for n in range(len(bounds))]
    ranges = AdaptiveRanges(names, bounds=dict(zip(names, bounds, strict=True)))
    values, boundary = ranges.draw(key), ranges.boundary(key)
    assert ranges.draw(key) == values
    assert set(values) == set(names)
    assert values[boundary] == ranges.bounds[boundary]
    assert all(0 <= values[name] <= ranges.bounds[name] for name in names)


def test_every_parameter_comes_to_its_bound():
    ranges = AdaptiveRanges(("a", "b", "c"))
    seen = Counter(ranges.boundary(key) for key in KEYS)
    assert set(seen) == {"a", "b", "c"} and min(seen.values()) > 70


@pytest.mark.parametrize(("succeeds", "width"), [(True, 1.0), (False, 0.0)])
def test_ranges_open_for_who_succeeds_and_for_nobody_else(succeeds, width):
    randomizer, widths = DomainRandomizer(curriculum="adr", seed=1), []
    for episode in range(12_000):
        drawn = randomizer.draw(child(9, episode))
        randomizer.record(succeeds, child(9, episode))
        widths.append(randomizer.get_current_difficulty())
    assert widths == sorted(widths)
    assert widths[-1] == width
    assert drawn["difficulty"] <= width
    for trait, easy in EASY_ENDS.items():
        hard = easy + (1 - 2 * easy) * width
        low, high = min(easy, hard), max(easy, hard)
        assert low - 1e-9 <= getattr(drawn["persona"], trait) <= high + 1e-9


def test_a_policy_that_copes_with_some_things_stops_where_it_does_not():
    """Fails with the impatient: that range stays where failures begin, the others open."""
    randomizer = DomainRandomizer(curriculum="adr")
    for episode in range(12_000):
        drawn = randomizer.draw(child(9, episode))
        randomizer.record(drawn["persona"].patience > 0.7, child(9, episode))
    bounds = randomizer.ranges.bounds
    assert 20 <= bounds["patience"] <= 35
    assert all(bound == 100 for name, bound in bounds.items() if name != "patience")


# -- the randomizer --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("persona_variation", 1.1),
        ("persona_variation", True),
        ("topic_variation", -0.1),
        ("style_variation", "much"),
        ("style_variation", None),
        ("initial_difficulty", 2),
        ("final_difficulty", float("nan")),
        ("difficulty", -0.5),
        ("curriculum", "steep"),
        ("curriculum_steps", 0),
        ("curriculum_steps", 0.5),
        ("curriculum_steps", None),
        ("personas", ["nobody"]),
        ("personas", "patient_expert"),
        ("personas", [{"patience": 3}]),
        ("topics", "cancel"),
    ],
    ids=str,
)
def test_a_bad_field_is_refused_by_name(field, value):
    named = {"['nobody']": "nobody", "[{'patience': 3}]": "patience"}.get(str(value), field)
    for made in (
        lambda: DomainRandomizer(**{field: value}),
        lambda: DomainRandomizer.of({field: value}),
    ):
        with pytest.raises(InvalidConfiguration, match=named):
            made()


@pytest.mark.parametrize("given", [None, "linear", 3, {"spice": 1}, {"ranges": {}}], ids=str)
def test_what_is_no_randomizer_is_refused(given):
    with pytest.raises(InvalidConfiguration):
        DomainRandomizer.of(given)


def test_a_randomizer_of_itself_or_of_its_fields():
    randomizer = DomainRandomizer(seed=3)
    assert DomainRandomizer.of(randomizer) is randomizer
    same = DomainRandomizer.of({"seed": 3})
    assert [same.draw(key) for key in KEYS[:20]] == [randomizer.draw(key) for key in KEYS[:20]]
    assert DomainRandomizer(use_curriculum=True).curriculum == "linear"
    assert DomainRandomizer(use_curriculum=True, curriculum="adr").curriculum == "adr"


@quick
@given(KEY, UNIT, UNIT, st.integers(0, 10**6), st.sampled_from(("none", "linear", "adr")))
def test_the_same_key_and_step_draw_the_same(key, persona, style, step, curriculum):
    fields = {
        "persona_variation": persona,
        "style_variation": style,
        "curriculum": curriculum,
        "topics": TOPICS,
        "personas": list(BUILT_IN),
    }
    one, other = DomainRandomizer(**fields), DomainRandomizer(**fields)
    other.draw(key + 1, step + 5)
    assert one.draw(key, step) == other.draw(key, step)


@quick
@given(KEY)
def test_no_variation_is_the_centre_and_full_variation_anybody(key):
    expert = BUILT_IN["patient_expert"]
    still = DomainRandomizer(persona_variation=0.0, personas=["patient_expert"]).draw(key)
    assert still["persona"].levels == expert.levels
    assert DomainRandomizer(persona_variation=0.0).draw(key)["persona"].levels == Persona().levels
    for centre in ((), ["patient_expert"]):
        full = DomainRandomizer(personas=centre).draw(key)
        assert full["persona"].levels == draw_levels(key)
    half = DomainRandomizer(persona_variation=0.5, personas=["patient_expert"]).draw(key)
    levels = zip(half["persona"].levels, expert.levels, draw_levels(key), strict=True)
    assert all(abs(found - (centre + drawn) / 2) <= 1 for found, centre, drawn in levels)


def test_every_centre_occurs():
    randomizer = DomainRandomizer(persona_variation=0.0, personas=list(BUILT_IN))
    seen = Counter(randomizer.draw(key)["persona"].levels for key in KEYS)
    assert set(seen) == {persona.levels for persona in BUILT_IN.values()}
    assert min(seen.values()) > 30


@quick
@given(KEY)
def test_styles_vary_apart_from_personas(key):
    assert "style" not in DomainRandomizer().draw(key)
    varied = DomainRandomizer(style_variation=1.0).draw(key)
    plain_one = DomainRandomizer().draw(key)
    assert varied["persona"] == plain_one["persona"]
    assert isinstance(varied["style"], Style)
    slight = DomainRandomizer(style_variation=0.01).draw(key)
    traits = slight["persona"]
    assert abs(slight["style"].formality - 100 * traits.formality) <= 1.01
    assert abs(slight["style"].typo_rate - 100 * traits.typo_rate) <= 1.01


def test_full_style_variation_is_any_style_whoever_writes():
    fields = {"persona_variation": 0.0, "personas": ["patient_expert"], "style_variation": 1.0}
    styles = [DomainRandomizer(**fields).draw(key)["style"] for key in KEYS]
    for name in ("formality", "verbosity", "typo_rate"):
        values = [getattr(style, name) for style in styles]
        assert min(values) < 5 and max(values) > 95
        assert abs(np.mean(values) - 50) < 8


@pytest.mark.parametrize("variation", [0.0, 0.4, 1.0])
def test_topics_are_those_given_the_first_most_often(variation):
    randomizer = DomainRandomizer(topics=["return", "cancel"], topic_variation=variation)
    seen = Counter(randomizer.draw(key)["topic"] for key in KEYS)
    assert seen["return"] / len(KEYS) == pytest.approx(1 - variation / 2, abs=0.1)
    assert set(seen) <= {"return", "cancel"}
    assert "topic" not in DomainRandomizer(topic_variation=variation).draw(1)


def test_the_linear_curriculum_by_hand():
    randomizer = DomainRandomizer(
        curriculum="linear", initial_difficulty=0.2, final_difficulty=0.8, curriculum_steps=1000
    )
    by_hand = {-5: 0.2, 0: 0.2, 250: 0.35, 500: 0.5, 1000: 0.8, 5000: 0.8}
    for step, difficulty in by_hand.items():
        assert randomizer.get_current_difficulty(step) == pytest.approx(difficulty)
        assert randomizer.draw(1, step)["difficulty"] == pytest.approx(difficulty)
    down = DomainRandomizer(use_curriculum=True, initial_difficulty=1.0, final_difficulty=0.0)
    assert down.get_current_difficulty(5000) == pytest.approx(0.5)
    assert DomainRandomizer().get_current_difficulty(5000) is None
    assert "difficulty" not in DomainRandomizer().draw(1)
    assert DomainRandomizer(difficulty=0.3).get_current_difficulty(5000) == 0.3


@pytest.mark.parametrize("fields", [{"curriculum": "linear"}, {}], ids=["linear", "fixed"])
def test_difficulty_makes_people_harder(fields):
    means = []
    for share in (0.0, 0.5, 1.0):
        if fields:
            randomizer = DomainRandomizer(**fields, initial_difficulty=0.0, final_difficulty=1.0)
        else:
            randomizer = DomainRandomizer(difficulty=share)
        drawn = [randomizer.draw(key, round(share * 10_000))["persona"] for key in KEYS]
        means.append({trait: np.mean([getattr(p, trait) for p in drawn]) for trait in TRAITS})
    for trait in TRAITS:
        found = [mean[trait] for mean in means]
        if trait not in EASY_ENDS:
            assert found[0] == found[1] == found[2]
        elif EASY_ENDS[trait] > 0.5:
            assert found[0] > found[1] + 0.1 > found[2] + 0.2
        else:
            assert found[0] < found[1] < found[2]


def test_sampling_by_hand_repeats_and_leaves_the_running_episode_alone():
    one, other = (DomainRandomizer(seed=5, topics=["return"]) for _ in range(2))
    assert [one.sample_persona() for _ in range(5)] == [other.sample_persona() for _ in range(5)]
    assert len({one.sample_persona().levels for _ in range(20)}) == 20
    scenarios = [r.sample_scenario(difficulty=0.9).to_dict() for r in (one, one, other)]
    assert scenarios[0] != scenarios[1]
    assert {scenario["topic"] for scenario in scenarios} == {"return"}
    assert one.sample_scenario(topic="cancel").topic == "cancel"
    assert DomainRandomizer(seed=6).sample_persona() != DomainRandomizer(seed=5).sample_persona()

    adaptive = DomainRandomizer(curriculum="adr", ranges=AdaptiveRanges(("task", *EASY_ENDS)))
    adaptive.ranges.buffer = 1
    key = next(key for key in KEYS if adaptive.ranges.boundary(key) == "patience")
    adaptive.draw(key)
    for other in KEYS[:20]:
        adaptive.sample_persona()
        adaptive.draw(other)  # another environment's episode
    adaptive.record(True, key)
    assert adaptive.ranges.bounds["patience"] == 5
    assert sum(adaptive.ranges.bounds.values()) == 5


# -- environments ----------------------------------------------------------------------------------


def played(env, episodes, seed=4, length=3):
    """`info` of each reset, with some steps of talk in between."""
    infos = [env.reset(seed=seed)[1]]
    while len(infos) < episodes:
        for _ in range(length):
            *_, terminated, truncated, _ = env.step("hello")
            if terminated or truncated:
                break
        infos.append(env.reset()[1])
    return infos


@every_id
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_difficulty_chooses_tasks_and_people(environment_id, split):
    points, patience = [], []
    rows = desk_of(environment_id).table(split)
    for difficulty in (0.0, 0.5, 1.0):
        env = make(environment_id, split=split, difficulty=difficulty, privileged=True)
        infos = [env.reset(seed=seed)[1] for seed in range(150)]
        assert {info["difficulty"] for info in infos} == {difficulty}
        numbers = [int(info["task_id"].rpartition("-")[2]) for info in infos]
        points.append(np.mean(rows.hardness[numbers]))
        patience.append(np.mean([hidden(info)["persona"]["patience"] for info in infos]))
    assert points == sorted(points) and points[-1] > points[0]
    assert patience == sorted(patience, reverse=True) and patience[0] > patience[-1] + 50
    plain_env = make(environment_id, split=split)
    assert plain_env.reset(seed=1)[1]["difficulty"] == -1.0


@every_topic
def test_a_topic_is_the_one_named(environment_id, topic):
    desk = desk_of(environment_id)
    split = next(
        split
        for split in splits_of(environment_id)
        if desk.topics.index(topic) in desk.table(split).topic
    )
    env = make(environment_id, topic=topic, split=split)
    met = {topic_of(environment_id, env.reset(seed=seed)[1]) for seed in range(30)}
    assert met == {topic}


@every_id
@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": "taxes"},
        {"topic": 1},
        {"difficulty": 1.5},
        {"difficulty": "hard"},
        {"difficulty": True},
        {"persona": "nobody"},
        {"persona": {"openness": 1}},
        {"persona": {"patience": [0.5, 0.4]}},
        {"style": "baroque"},
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_as_keyword_option_and_draw(environment_id, wrong):
    (name,) = wrong
    with pytest.raises(InvalidConfiguration):
        make(environment_id, **wrong)
    env = make(environment_id)
    with pytest.raises(InvalidConfiguration):
        env.reset(seed=1, options=wrong)
    if name == "topic":
        with pytest.raises(InvalidConfiguration):
            make(environment_id, randomizer={"topics": [wrong["topic"]]}).reset(seed=1)


@every_id
def test_options_fix_one_episode(environment_id):
    env = make(environment_id, privileged=True)
    topic = desk_of(environment_id).topics[1]
    options = {"topic": topic, "difficulty": 0.9, "persona": "busy_professional"}
    _, info = env.reset(seed=1, options=options)
    assert topic_of(environment_id, info) == topic
    assert info["difficulty"] == 0.9
    expected = dict(zip(TRAITS, BUILT_IN["busy_professional"].levels, strict=True))
    assert hidden(info)["persona"] == expected
    _, after = env.reset(seed=1)
    _, never = make(environment_id, privileged=True).reset(seed=1)
    assert plain(after) == plain(never)


@every_id
def test_keywords_and_options_mean_the_same(environment_id):
    chosen = {
        "topic": desk_of(environment_id).topics[1],
        "difficulty": 0.2,
        "persona": {"base": "patient_expert", "patience": 0.1},
        "style": {"formality": 1.0, "verbosity": 0.0},
    }
    by_keyword = make(environment_id, privileged=True, **chosen)
    by_option = make(environment_id, privileged=True)
    for seed in range(10):
        one, other = by_keyword.reset(seed=seed), by_option.reset(seed=seed, options=chosen)
        assert [plain(part) for part in one] == [plain(part) for part in other]


@every_id
def test_a_persona_of_ranges_is_drawn_within_them(environment_id):
    ranges = {"base": "patient_expert", "patience": [0.1, 0.3]}
    for persona in (ranges, PersonaGenerator.of(ranges)):
        env = make(environment_id, persona=persona, privileged=True)
        found = [hidden(env.reset(seed=seed)[1])["persona"] for seed in range(30)]
        assert all(10 <= one.pop("patience") <= 30 for one in found)
        assert all(one == found[0] for one in found)


CURRICULUM = {"curriculum": "linear", "curriculum_steps": 40}


def wrapped(environment_id, randomizer, **keywords):
    return DomainRandomization(make(environment_id, privileged=True, **keywords), randomizer)


def given_as_keyword(environment_id, randomizer, **keywords):
    return make(environment_id, privileged=True, randomizer=randomizer, **keywords)


every_way = pytest.mark.parametrize("way", [wrapped, given_as_keyword])


@every_id
@every_way
def test_difficulty_follows_the_steps_and_repeats_from_a_seed(environment_id, way):
    topics = list(desk_of(environment_id).topics[:2])
    curriculum = {**CURRICULUM, "topics": topics}
    infos = played(way(environment_id, curriculum), 20)
    difficulties = [info["difficulty"] for info in infos]
    assert difficulties == sorted(difficulties)
    assert (difficulties[0], difficulties[-1]) == (0.1, 0.9)
    assert len(set(difficulties)) > 8
    assert {topic_of(environment_id, info) for info in infos} == set(topics)
    assert len({json.dumps(hidden(info)["persona"]) for info in infos}) == 20
    again = played(way(environment_id, curriculum), 20)
    assert [plain(info) for info in infos] == [plain(info) for info in again]
    assert plain(played(way(environment_id, curriculum), 2, seed=5)[0]) != plain(infos[0])


@every_id
@every_way
def test_options_go_before_what_is_drawn(environment_id, way):
    drawn, given_one = desk_of(environment_id).topics[:2]
    env = way(environment_id, {"difficulty": 0.5, "topics": [drawn]})
    assert topic_of(environment_id, env.reset(seed=1)[1]) == drawn
    _, info = env.reset(seed=1, options={"topic": given_one, "persona": "patient_expert"})
    assert topic_of(environment_id, info) == given_one
    assert info["difficulty"] == 0.5
    assert hidden(info)["persona"]["patience"] == BUILT_IN["patient_expert"].levels[0]


@every_id
@every_way
def test_the_adaptive_curriculum_hears_how_episodes_end(environment_id, way):
    randomizer = DomainRandomizer(
        curriculum="adr", ranges=AdaptiveRanges(("task", *EASY_ENDS), buffer=1)
    )
    for name in randomizer.ranges.names:
        randomizer.ranges.bounds[name] = 50
    env = way(environment_id, randomizer)
    for seed in range(10):
        env.reset(seed=seed)
        terminated = truncated = False
        while not (terminated or truncated):
            *_, terminated, truncated, info = env.step("I don't understand.")
        assert not info["success"]
    assert sum(randomizer.ranges.bounds.values()) == 50 * len(randomizer.ranges.names) - 5 * 10


@every_id
def test_the_wrapper_says_where_it_stands_and_can_be_made_again(environment_id):
    env = wrapped(environment_id, CURRICULUM)
    env.reset(seed=1)
    assert (env.steps, env.difficulty) == (0, 0.1)
    for _ in range(2):
        env.step("hello")
    assert env.steps == 2
    assert env.difficulty == pytest.approx(0.1 + 0.8 * 2 / 40)
    env.reset(seed=1)
    assert env.steps == 2, "a curriculum goes on after a seeded reset"
    if env.spec is not None:
        again = gym.make(env.spec)
        assert plain(again.reset(seed=1)[1]) == plain(
            wrapped(environment_id, CURRICULUM).reset(seed=1)[1]
        )
