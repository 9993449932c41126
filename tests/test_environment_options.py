"""Every registered id: what keywords, options, snapshots, rendering and rewards do."""

import io
import json
from contextlib import redirect_stdout

import numpy as np
import pytest
from driven import (
    MODES,
    bare,
    choose,
    desk_of,
    episode_of,
    every_id,
    every_mode,
    every_split,
    hidden,
    make,
    plain,
    player,
    rollout,
    splits_of,
)

from convgym.desk.desk import ServiceDesk
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.keys import POLICY, below, draw
from convgym.envs.conversation_env import REWARDS
from convgym.errors import InvalidConfiguration
from convgym.users.decisions import DecisionModel
from convgym.users.persona import BUILT_IN, TRAITS, draw_levels

# -- keywords and options that work ----------------------------------------------------------------


@every_id
@pytest.mark.parametrize("cap", [2, 7, 30])
def test_max_turns_truncates(environment_id, cap):
    env = make(environment_id, max_turns=cap)
    env.reset(seed=1)
    lengths = []
    for seed in range(20):
        env.reset(seed=seed)
        for step in range(1, cap + 1):
            _, _, terminated, truncated, info = env.step("<think>hm</think>hello")
            assert truncated == (step == cap and not terminated)
            if terminated or truncated:
                lengths.append(step)
                assert info["failure_reason"]
                break
    assert max(lengths) == cap or cap == 30


@every_split
def test_tasks_come_from_the_split(environment_id, split):
    env = make(environment_id, split=split, observation="features")
    tasks = [env.reset(seed=seed)[1]["task_id"] for seed in range(50)]
    assert all(task.startswith(f"{split}-") for task in tasks)
    assert len(set(tasks)) > 40


@every_id
def test_one_task_with_many_users(environment_id):
    """What pass^k varies: the user alone."""
    env = make(environment_id, observation="dict", action="act", privileged=True)
    runs, policies, goals, personas = set(), set(), set(), set()
    for user_seed in range(30):
        options = {"task_id": "test-3", "user_seed": user_seed, "wording_seed": 5}
        steps = rollout(env, player(environment_id, 0.3), 1, **options)
        infos = [step[4] for step in steps]
        assert {info["task_id"] for info in infos} == {"test-3"}
        runs.add(tuple(info["user_acts"] for info in infos))
        policies.add(steps[0][0]["policy"])
        told = hidden(infos[0])
        personas.add(tuple(told.pop("persona").values()))
        told.pop("decisions", None)
        goals.add(json.dumps(told))
        again = rollout(env, player(environment_id, 0.3), 1, **options)
        assert [plain(step[4]) for step in again] == [plain(info) for info in infos]
    assert len(policies) == len(goals) == 1
    assert len(runs) > 6
    assert len(personas) > 6


@every_id
def test_one_user_in_other_words(environment_id):
    env = make(environment_id, observation="dict", action="act")
    differ = 0
    for user_seed in range(10):
        runs = []
        for wording_seed in (1, 2):
            options = {"task_id": "test-3", "user_seed": user_seed, "wording_seed": wording_seed}
            runs.append(rollout(env, player(environment_id, 0.3), 1, **options))
        spoken = [[step[0]["message"] for step in run] for run in runs]
        ignoring_words = [
            [[plain(v) for v in (*step[1:], step[0]["features"], step[0]["view"])] for step in run]
            for run in runs
        ]
        assert ignoring_words[0] == ignoring_words[1]
        differ += spoken[0] != spoken[1]
    assert differ == 10


@every_id
def test_all_three_fixed_make_a_group_of_equals(environment_id):
    """What GRPO fixes within a group; the reset's own seed no longer matters."""
    options = {"task_id": "train-5", "user_seed": 1, "wording_seed": 2}
    env = make(environment_id, observation="transcript")
    first = [episode_of(env, 0, seed=seed, options=options) for seed in (1, 2, None)]
    assert first[0] == first[1] == first[2]


@every_id
def test_the_keyword_task_id_and_the_option_name_the_same_task(environment_id):
    _, by_keyword = make(environment_id, task_id="validation-8").reset(seed=3)
    _, by_option = make(environment_id).reset(seed=3, options={"task_id": "validation-8"})
    assert plain(by_keyword) == plain(by_option)
    assert by_option["split"] == "validation"


@every_id
@pytest.mark.parametrize("persona", BUILT_IN)
def test_a_persona_is_the_one_named(environment_id, persona):
    env = make(environment_id, persona=persona, privileged=True)
    _, info = env.reset(seed=1)
    expected = dict(zip(TRAITS, BUILT_IN[persona].levels, strict=True))
    assert json.loads(info["privileged"])["persona"] == expected


@every_id
def test_held_out_phrases_change_the_words_alone(environment_id):
    runs = []
    for phrases in ("train", "held_out"):
        env = make(environment_id, observation="dict", action="act", phrases=phrases)
        players = (player(environment_id, 0.3) for _ in range(5))
        runs.append([step for s, p in enumerate(players) for step in rollout(env, p, s)])
    said = [{step[0]["message"] for step in run} - {""} for run in runs]
    assert [plain(step[4]) for step in runs[0]] == [plain(step[4]) for step in runs[1]]
    if "test_lexical" in splits_of(environment_id):
        assert not said[0] & said[1]
    else:
        assert said[0] != said[1], "manners are held out in every domain"


# -- snapshots -------------------------------------------------------------------------------------


def state_of(episode):
    """Everything an episode holds, the private records opened."""
    values = {name: getattr(episode, name) for name in Episode.__slots__}
    for record in ("user", "desk"):
        opened = values[record]
        values[record] = {name: repr(getattr(opened, name)) for name in opened.__slots__}
    return repr(values)


@every_id
def test_a_snapshot_is_independent_and_can_be_put_back(environment_id):
    domain = bare(environment_id).make_domain()
    engine = Engine(domain, domain.make_user(DecisionModel()), 30)

    def advance(episode, key, steps):
        for step in range(steps):
            if episode.end:
                return
            mask = domain.actions.mask(np.frombuffer(bytes(episode.belief), np.uint8))
            legal = np.flatnonzero(mask)
            number = int(legal[below(draw(key, POLICY, step, 1), len(legal))])
            engine.apply(episode, domain.turn(episode, number))

    for key in range(30):
        episode = Episode(domain.task("test", key), key, key, domain.layout.row())
        domain.open(episode, draw_levels(key))
        engine.open(episode)
        advance(episode, key, 6)
        saved = episode.snapshot()
        begun = state_of(saved)
        assert state_of(episode) == begun
        advance(episode, key + 1, 8)
        ended = state_of(episode)
        assert state_of(saved) == begun, "going on must not change the snapshot"
        for _ in range(2):
            episode.restore(saved)
            assert state_of(episode) == begun
            advance(episode, key + 1, 8)
            assert state_of(episode) == ended
        assert state_of(saved) == begun


# -- rendering -------------------------------------------------------------------------------------


@every_id
@pytest.mark.parametrize(("observation", "action"), MODES)
def test_ansi_shows_the_whole_conversation(environment_id, observation, action):
    env = bare(environment_id, observation=observation, action=action, render_mode="ansi")
    words = bare(environment_id, observation="dict", action=action)
    assert env.render() is None
    _, info = env.reset(seed=9)
    said = [words.reset(seed=9)[0]["message"]]
    for step in range(8):
        taken = choose(env, info, 9, step)
        _, _, terminated, truncated, info = env.step(taken)
        said.append(words.step(taken)[0]["message"])
        if terminated or truncated:
            break
    text = env.render()
    assert isinstance(text, str)
    assert "-- ledger" in text
    assert text.count(" Agent: ") == step + 1
    missing = [message for message in said if message and message not in text]
    assert not missing


@every_id
@every_mode
def test_human_prints_and_returns_nothing(environment_id, observation, action):
    env = bare(environment_id, observation=observation, action=action, render_mode="human")
    printed = io.StringIO()
    with redirect_stdout(printed):
        _, info = env.reset(seed=9)
        env.step(choose(env, info, 9, 0))
        assert env.render() is None
    assert "Customer: " in printed.getvalue()
    assert "Agent: " in printed.getvalue()


# -- rewards ---------------------------------------------------------------------------------------

ROUNDED = 5e-10
"""How far a term is from the reward's share of it: terms are written with nine decimals."""
every_noise = pytest.mark.parametrize("noise", [0.0, 0.3])


def rewarded(environment_id, noise, reward, seeds=range(40), **keywords):
    modes = {"observation": "features", "action": "act", "split": "test"}
    env = make(environment_id, reward=reward, **modes, **keywords)
    return [rollout(env, player(environment_id, noise), seed)[1:] for seed in seeds]


@every_id
@every_noise
def test_success_is_paid_once_at_the_end(environment_id, noise):
    for steps in rewarded(environment_id, noise, "success"):
        *before, last = steps
        assert all(step[1] == 0.0 and not step[4]["success"] for step in before)
        assert last[1] == float(last[4]["success"])
        assert (last[4]["failure_reason"] == "") == last[4]["success"]


@every_id
@every_noise
def test_graded_is_paid_once_and_is_one_only_for_success(environment_id, noise):
    earned, whole = set(), isinstance(desk_of(environment_id), ServiceDesk)
    for steps in rewarded(environment_id, noise, "graded", seeds=range(80)):
        *before, last = steps
        assert all(step[1] == 0.0 for step in before)
        assert 0.0 <= last[1] <= 1.0
        one = last[1] == pytest.approx(1.0)
        assert last[4]["success"] if one else not (whole and last[4]["success"])
        assert last[1] == 0.0 or not last[4]["violations"]
        earned.add(round(last[1], 6))
    assert noise == 0.0 or len(earned) > 2


@every_id
def test_a_conversation_cut_off_is_paid_nothing(environment_id):
    """Learners bootstrap there; once progress was paid, and PPO learnt to stall to the cap."""
    cut = 0
    for cap in range(4, 12):
        for steps in rewarded(environment_id, 0.0, "graded", range(25), max_turns=cap):
            _, reward, _, truncated, info = steps[-1]
            cut += truncated and info["milestones"] > 0
            assert not (truncated and reward), f"cap {cap}, {info['task_id']}"
    assert cut > 20  # there was something that could have been paid


@every_id
@every_noise
@pytest.mark.parametrize("cap", [8, 30])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_milestones_are_success_plus_a_potential(environment_id, noise, cap, discount):
    """Σ γᵗ F(s, s') = γᵀ Φ(last) − Φ(first), with Φ(first) = 0 and Φ(terminated) = 0."""
    keywords = {"max_turns": cap, "discount": discount}
    truncations = 0
    for steps in rewarded(environment_id, noise, "milestones", **keywords):
        terms = [json.loads(step[4]["reward_terms"]) for step in steps]
        for step, term in zip(steps, terms, strict=True):
            assert step[1] == pytest.approx(term["success"] + term["milestones"], abs=ROUNDED)
        truncated, info = steps[-1][3], steps[-1][4]
        shaping = sum(discount**t * term["milestones"] for t, term in enumerate(terms))
        last = discount ** len(steps) * info["milestones"] if truncated else 0.0
        assert shaping == pytest.approx(last, abs=ROUNDED * len(steps))
        assert sum(term["success"] for term in terms) == float(info["success"])
        truncations += truncated
    assert truncations > 0 or cap == 30


@every_id
def test_the_kind_of_reward_changes_nothing_else(environment_id):
    runs = [rewarded(environment_id, 0.3, reward, range(10)) for reward in REWARDS]

    def without_reward(run):
        for observation, _, *flags, info in (step for steps in run for step in steps):
            kept = {k: v for k, v in info.items() if k not in ("reward_terms", "milestones")}
            yield plain(observation), flags, plain(kept)

    first, *others = (list(without_reward(run)) for run in runs)
    assert all(other == first for other in others)


class Always:
    """A reranker that takes whatever is unread for a question, and for a refusal."""

    def __init__(self, slot):
        self.slot = slot

    def propose(self, text):
        return (f"ask({self.slot})", "deny(unverified)")


KEYS = {"ConvGym/CustomerService-v0": "email", "ConvGym/OwnDomain-v0": "card"}
by_key = pytest.mark.parametrize(("environment_id", "key"), KEYS.items())
UNREAD = "Blubb bla blubb."


@by_key
def test_a_reranker_is_asked_about_what_is_not_read(environment_id, key):
    for reranker, acts in ((None, "ask_back"), (Always(key), f"inform_{key}")):
        env = make(environment_id, reranker=reranker, persona={"scepticism": 0.0, "accuracy": 1.0})
        env.reset(seed=1)
        info = env.step(UNREAD)[4]
        assert f'"{acts}"' in info["user_acts"]
        assert "deny" not in str(env.unwrapped._episode.ledger), "it proposes nothing that weighs"


def test_the_built_in_reranker_reads_what_is_garbled():
    env = make("ConvGym/CustomerService-v0", reranker=True)
    env.reset(seed=1)
    assert '"ask_back"' in env.step(UNREAD)[4]["user_acts"]
    garbled = "Cold you plaese tell me teh email adress that is regsitered on your custmer acount?"
    assert env.unwrapped._domain.own_reranker().propose(garbled) == ("ask(email)",)


@every_id
def test_a_reranker_belongs_to_the_environment_it_was_given_to(environment_id):
    with_one = bare(environment_id, reranker=Always("x"))
    without = bare(environment_id)
    assert with_one._domain.reranker is not None
    assert without._domain.reranker is None


@every_id
def test_what_is_no_reranker_is_refused(environment_id):
    with pytest.raises(InvalidConfiguration, match="nor has it propose"):
        make(environment_id, reranker="hashed")
