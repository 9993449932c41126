"""The Decision Transformer: what it sees, how it acts, and its options."""

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from convgym.data.mixture import BatchMixture, BehaviorMixture
from convgym.data.propensities import distributions
from convgym.data.transitions import EpisodeArrays, returns_to_go
from convgym.errors import InvalidConfiguration
from convgym.evaluation.rollout import play
from convgym.evaluation.side_by_side import play_side_by_side
from convgym.policies.batched import BatchRandomPolicy, RowPolicies
from convgym.policies.policy import RandomPolicy
from convgym.policies.rendered import RenderedPolicy

torch = pytest.importorskip("torch", reason="torch is not installed")

from trainers.offline.algorithms.decision_transformer import (  # noqa: E402
    ContinuousDecisionTransformerConfig,
    DecisionTransformerConfig,
)
from trainers.offline.batches import Sequences, Transitions  # noqa: E402
from trainers.offline.config import Shapes  # noqa: E402
from trainers.offline.decision_transformer_policy import DecisionTransformerPolicy  # noqa: E402
from trainers.offline.registry import config_from_dict, config_of  # noqa: E402
from trainers.offline.transformer import Architecture, DecisionTransformer  # noqa: E402

SMALL: dict[str, Any] = {"width": 32, "layers": 1, "heads": 2}
ACTS, SIZE = 4, 3


def model(discrete=True, context=6, seed=0, **options):
    """Untrained, its weights large enough that everything it sees makes a difference."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = DecisionTransformer(
            Architecture(
                **{
                    "observation": SIZE, "actions": ACTS, "discrete": discrete, "context": context,
                    "turns": 9, "width": 16, "heads": 2, "layers": 2, "max_return": 2.0, **options,
                }
            )
        )  # fmt: skip
        for part in made.parameters():
            part.data.add_(0.3 * torch.randn(part.shape))
    return made


def episodes(lengths, discrete=True, seed=0, masked=True):
    rng = np.random.default_rng(seed)
    made = []
    for length in lengths:
        rewards = rng.normal(size=length)
        masks = np.ones((length + 1, ACTS), np.int8)
        masks[:, 0] = 0
        acts = rng.integers(1, ACTS, size=length)
        vectors = rng.uniform(-1, 1, size=(length, ACTS)).astype(np.float32)
        made.append(
            EpisodeArrays(
                rng.normal(size=(length + 1, SIZE)).astype(np.float32),
                acts if discrete else vectors, rewards, True, False, returns_to_go(rewards, 1.0),
                masks if masked and discrete else None,
            )
        )  # fmt: skip
    return made


def columns(batch):
    return [batch[n] for n in ("observations", "actions", "returns_to_go", "timesteps")]


# -- what it sees ----------------------------------------------------------------------------------


@pytest.mark.parametrize("discrete", [True, False], ids=["acts", "vectors"])
def test_a_conversation_has_the_same_outputs_alone_beside_others_and_however_padded(discrete):
    data, net = Transitions(episodes([2, 5, 1, 4], discrete)), model(discrete)
    together = Sequences(data, 6, stride=6, padding="right")[torch.arange(4)]
    found = net(*columns(together)).detach()
    for number, length in enumerate([2, 5, 1, 4]):
        alone = [column[number : number + 1, :length] for column in columns(together)]
        assert torch.allclose(net(*alone)[0], found[number, :length], atol=1e-5)
    noise = torch.rand(together["returns_to_go"].shape) * 100
    padded = [
        torch.where(
            together["attention_mask"].reshape(4, 6, *[1] * (column.ndim - 2)),
            column,
            torch.full_like(column, 3) if column.dtype == torch.int64
            else noise.reshape(4, 6, *[1] * (column.ndim - 2)).expand_as(column),
        )
        for column in columns(together)
    ]  # fmt: skip
    changed, real = net(*padded), together["attention_mask"]
    assert torch.equal(changed[real], found[real])
    assert not torch.allclose(changed[~real], found[~real], atol=1e-3)


@pytest.mark.parametrize("discrete", [True, False], ids=["acts", "vectors"])
def test_the_loss_is_the_mean_over_real_turns_alone(discrete):
    """Worked turn by turn, each conversation alone, in a batch where most positions are padding."""
    lengths, data = [1, 7, 2], episodes([1, 7, 2], discrete)
    kind = DecisionTransformerConfig if discrete else ContinuousDecisionTransformerConfig
    config = kind(context_length=20, **SMALL)
    turns = Transitions(data)
    learning = config.build(Shapes(SIZE, ACTS, discrete), turns)
    batch = config.items(turns)[torch.arange(3)]
    assert batch["attention_mask"].sum() == 10
    losses = []
    for number, (length, episode) in enumerate(zip(lengths, data, strict=True)):
        alone = [column[number : number + 1, :length] for column in columns(batch)]
        found = learning.model(*alone)[0].detach()
        done = torch.as_tensor(episode.actions)
        for t in range(length):
            if discrete:
                legal = found[t, 1:].softmax(-1)  # act 0 is illegal
                losses.append(-float(legal[done[t] - 1].log()))
            else:
                losses.append(float((found[t] - done[t]).square().mean()))
    assert float(learning.loss(batch)[0].detach()) == pytest.approx(np.mean(losses), rel=1e-5)
    weights = torch.tensor([2.0, 0.0, 1.0])
    weighed = learning.loss({**batch, "weights": weights})[0].detach()
    expected = (2 * losses[0] + losses[8] + losses[9]) / 10
    assert float(weighed) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("turn", range(5))
def test_nothing_later_changes_an_earlier_output(turn):
    """What is seen at turn t: returns and states up to t, actions before it; nothing else."""
    net = model()
    batch = columns(Sequences(Transitions(episodes([5])), 5)[torch.tensor([4])])
    before = net(*batch)
    states, actions, returns, timesteps = (column.clone() for column in batch)
    states[:, turn + 1 :] += 1
    returns[:, turn + 1 :] += 1
    actions[:, turn:] = (actions[:, turn:] + 1) % ACTS
    after = net(states, actions, returns, timesteps)
    assert torch.equal(after[:, : turn + 1], before[:, : turn + 1])
    if turn < 4:
        assert not torch.allclose(after[:, turn + 1 :], before[:, turn + 1 :], atol=1e-3)
    for column, change in ((states, 1), (returns, 1), (timesteps, 1)):
        column[:, turn] += change
        assert not torch.allclose(
            net(states, actions, returns, timesteps)[:, turn], after[:, turn], atol=1e-3
        )
        column[:, turn] -= change


def test_every_turn_of_the_data_is_in_one_stretch():
    turns = Transitions(episodes([2, 9, 4]))
    items = DecisionTransformerConfig(context_length=4, **SMALL).items(turns)
    batch = items[torch.arange(len(items))]
    seen = batch["observations"][batch["attention_mask"]]
    every = turns[torch.arange(15)]["observations"]
    assert len(seen) == 15 and torch.equal(seen.unique(dim=0), every.unique(dim=0))


def test_generate_reads_the_last_turns_and_may_do_without_the_last_action():
    net = model(context=3)
    states, actions, returns, timesteps = columns(
        Sequences(Transitions(episodes([5, 5])), 5)[torch.tensor([4, 9])]
    )
    found = net.generate(states, actions[:, :-1], returns, timesteps)
    assert torch.equal(found, net.generate(states, actions, returns, timesteps))
    short = [c[:, 2:] for c in (states, actions, returns, timesteps)]
    assert torch.equal(found, net(*short)[:, -1].argmax(-1))
    worst = torch.nn.functional.one_hot(found, ACTS) == 0
    assert (net.generate(states, actions, returns, timesteps, worst) != found).all()
    vector = model(discrete=False, context=3)
    moves = torch.rand(2, 4, ACTS)
    assert vector.generate(states, moves, returns, timesteps).shape == (2, ACTS)
    with pytest.raises(InvalidConfiguration, match="5 states, 3 actions"):
        net.generate(states, actions[:, :3], returns, timesteps)


# -- the policy ------------------------------------------------------------------------------------


@dataclass
class Told:
    """Turns of a conversation, with the return that was asked for at each."""

    observations: Any
    returns: Any
    actions: Any


def played(policy, turns=8, seed=0):
    """A conversation with random observations and rewards, as `play` would have it."""
    rng = np.random.default_rng(seed)
    told, state, asked = Told([], [], []), None, policy.target_return
    policy.reset(seed)
    for turn in range(turns):
        observation, mask = rng.normal(size=SIZE).astype(np.float32), np.ones(ACTS, np.int8)
        action, state = policy.predict(observation, state, turn == 0, action_masks=mask)
        told.observations.append(observation)
        told.returns.append(asked)
        told.actions.append(action)
        reward = float(rng.normal())
        policy.rewarded(reward)
        asked = (asked - reward) / policy.discount
    return told


@pytest.mark.parametrize("discrete", [True, False], ids=["acts", "vectors"])
def test_generate_gives_what_the_policy_does(discrete):
    """Also where the conversation is longer than the context, and later than any in the data."""
    net = model(discrete, context=4)
    policy = DecisionTransformerPolicy(net, target_return=1.5, discount=0.9)
    told, chosen = played(policy, turns=12), []
    for t in range(12):
        seen = slice(0, t + 1)
        chosen.append(
            net.generate(
                torch.tensor(np.array(told.observations[seen]))[None],
                torch.tensor(np.array(told.actions[seen]))[None],
                torch.tensor(told.returns[seen])[None],
                torch.arange(t + 1)[None],
            )[0].numpy()
        )
    assert np.allclose(chosen, told.actions, atol=1e-5)
    assert len({np.asarray(action).tobytes() for action in told.actions}) > 1


def test_a_reset_forgets_and_a_state_can_be_gone_on_from_twice():
    policy = DecisionTransformerPolicy(model(), 1.0, temperature=1.0)
    assert played(policy).actions == played(policy).actions
    here, mask = np.ones(SIZE, np.float32), np.ones(ACTS, np.int8)
    policy.reset(0)
    first = policy.action_probs(here, mask)
    _, state = policy.predict(here, None, True, action_masks=mask)
    later = policy.action_probs(here, mask)
    assert not np.allclose(first, later)
    once, _ = policy.predict(here, state, False, True, action_masks=mask)
    policy.predict(here, state, False, True, action_masks=mask)
    again, _ = policy.predict(here, state, False, True, action_masks=mask)
    assert once == again == later.argmax()
    untold = policy.action_probs(here, mask)
    policy.rewarded(5.0)
    assert not np.allclose(policy.action_probs(here, mask), untold)
    anew, _ = policy.predict(here, state, np.array([True]), True, action_masks=mask)
    assert anew == first.argmax()


def test_illegal_acts_are_never_chosen():
    policy = DecisionTransformerPolicy(model(), 1.0, temperature=5.0)
    rng, here = np.random.default_rng(0), np.ones(SIZE, np.float32)
    for turn in range(60):
        mask = np.zeros(ACTS, np.int8)
        mask[rng.choice(ACTS, 2, replace=False)] = 1
        action, _ = policy.predict(here, action_masks=mask, deterministic=turn % 2 == 0)
        assert mask[action]
        assert policy.action_probs(here, mask)[mask == 0].tolist() == [0, 0]
    wanted = int(policy.action_probs(here, np.ones(ACTS)).argmax())
    assert policy.predict(here, deterministic=True)[0] == wanted  # without a mask all are legal
    mask = (np.arange(ACTS) != wanted).astype(np.int8)
    assert policy.predict(here, action_masks=mask, deterministic=True)[0] != wanted


def test_illegal_acts_have_no_logit():
    masks = torch.tensor([True, False, True, False]).expand(1, 5, ACTS)
    found = model()(*columns(Sequences(Transitions(episodes([5])), 5)[torch.tensor([4])]), masks)
    assert found[..., [1, 3]].isneginf().all() and found[..., [0, 2]].isfinite().all()


@pytest.mark.parametrize("discrete", [True, False], ids=["acts", "vectors"])
def test_a_saved_policy_does_the_same(tmp_path, discrete):
    policy = DecisionTransformerPolicy(model(discrete), 1.5, 0.9, temperature=0.5 * discrete)
    policy.save(tmp_path / "policy.zip")
    loaded = DecisionTransformerPolicy.load(tmp_path / "policy.zip")
    assert np.array_equal(played(loaded).actions, played(policy).actions)
    loaded.save(tmp_path / "again.zip")
    assert (tmp_path / "policy.zip").read_bytes() == (tmp_path / "again.zip").read_bytes()
    (tmp_path / "other.zip").write_bytes(b"no archive")
    with pytest.raises(InvalidConfiguration, match="decision transformer"):
        DecisionTransformerPolicy.load(tmp_path / "other.zip")


@pytest.mark.parametrize(
    "options", [{"target_return": np.inf}, {"discount": 0}, {"temperature": -1}]
)
def test_a_bad_policy_is_one_sentence(options):
    with pytest.raises(InvalidConfiguration):
        DecisionTransformerPolicy(**{"model": model(), "target_return": 1.0, **options})


@pytest.mark.parametrize("length", [1, 3, 8])
def test_probabilities_of_a_recorded_conversation_match_the_plain_loop(length):
    """Of what was done, and of what was earned by it, in no more turns than it sees."""
    (episode,), net, asked = episodes([length]), model(context=3), [1.0]
    policy = DecisionTransformerPolicy(net, 1.0, 0.9, temperature=2.0)
    for reward in episode.rewards:
        asked.append((asked[-1] - reward) / 0.9)
    expected = []
    for t in range(length):
        turns = torch.arange(max(0, t - 2), t + 1)
        logits = net(
            torch.as_tensor(episode.observations)[None, turns],
            torch.as_tensor(np.append(episode.actions, 0))[None, turns],
            torch.tensor(asked)[None, turns],
            turns[None],
        )[0, -1].detach()
        expected.append([0.0, *(logits[1:] / 2).softmax(-1).tolist()])  # act 0 is illegal
    assert policy.episode_probs(episode) == pytest.approx(np.array(expected), abs=1e-5)
    for asker in (policy, policy.batched()):
        assert np.array_equal(distributions(asker, episode), policy.episode_probs(episode))


def test_probabilities_when_played_are_those_of_the_record():
    policy = DecisionTransformerPolicy(model(context=3), 1.0, 0.9, temperature=1.0)
    told, met = played(policy, turns=7), []
    rewards, state = [], None
    policy.reset(0)
    rng = np.random.default_rng(0)
    for observation in told.observations:
        rng.normal(size=SIZE)
        _, state = policy.predict(observation, state, action_masks=np.ones(ACTS, np.int8))
        met.append(policy.propensity)
        rewards.append(float(rng.normal()))
        policy.rewarded(rewards[-1])
    episode = EpisodeArrays(
        np.array([*told.observations, np.zeros(SIZE)], np.float32), np.array(told.actions),
        np.array(rewards), True, False, np.zeros(7), np.ones((8, ACTS), np.int8),
    )  # fmt: skip
    found = policy.episode_probs(episode)[np.arange(7), told.actions]
    assert found == pytest.approx(met, abs=1e-5)


# -- side by side ----------------------------------------------------------------------------------


def customer_service(rows=None):
    id_, kinds = "ConvGym/CustomerService-v0", {"observation": "features", "action": "act"}
    if rows is None:
        return gym.make(id_, disable_env_checker=True, **kinds)
    return gym.make_vec(id_, num_envs=rows, vectorization_mode="vector_entry_point", **kinds)


@pytest.fixture(scope="module")
def talker():
    env = customer_service()
    net = model(
        observation=env.observation_space.shape[0], actions=int(env.action_space.n), context=3
    )
    return DecisionTransformerPolicy(net, 1.0, discount=0.98, temperature=1.0)


PLANS = [(seed, {"task_id": f"validation-{seed}"}) for seed in range(10)]


def sums(rollout):
    return rollout.length, pytest.approx(rollout.return_), rollout.final_info["failure_reason"]


@pytest.mark.parametrize("kind", ["batched", "rows"])
def test_conversations_side_by_side_are_those_one_after_another(talker, kind):
    """Rewards are told in both, so the returns that are asked for are the same too."""
    many = talker.batched() if kind == "batched" else RowPolicies(lambda: reloaded(talker))
    envs = customer_service(rows=4)
    found = {n: run for n, _, run in play_side_by_side(envs, many, PLANS)}
    env, alone = customer_service(), talker
    for number, (seed, options) in enumerate(PLANS):
        expected = play(env, alone, seed=seed, options=options, keep=False)
        assert sums(found[number]) == sums(expected)


def test_rewards_reach_a_policy_whose_acts_are_put_in_words(talker):
    """The same conversation in words and in acts: the customer understands every reply."""
    words = gym.make("ConvGym/CustomerService-v0", disable_env_checker=True, observation="dict")
    asked = []
    for env, policy in ((words, RenderedPolicy(talker)), (customer_service(), talker)):
        play(env, policy, seed=2, options={"task_id": "validation-2"}, keep=False)
        asked.append(talker._past.to_go.tolist())
    assert asked[0] == pytest.approx(asked[1]) and asked[0] != [talker.target_return]


def reloaded(policy):
    return DecisionTransformerPolicy(
        policy.model, policy.target_return, policy.discount, policy.temperature
    )


def test_mixtures_pass_rewards_on(talker):
    one = BehaviorMixture([(RandomPolicy(), 0.5), (talker, 0.5)])
    many = BatchMixture([(BatchRandomPolicy(), 0.5), (talker.batched(), 0.5)])
    found = {n: run for n, _, run in play_side_by_side(customer_service(rows=4), many, PLANS)}
    env, who = customer_service(), set()
    for number, (seed, options) in enumerate(PLANS):
        expected = play(env, one, seed=seed, options=options, keep=False)
        assert sums(found[number]) == sums(expected)
        who.add(one.index)
    assert who == {0, 1}


def test_many_conversations_are_asked_for_what_single_ones_are():
    """Rows that begin and earn at different times, more of them than there was room for."""
    net, rng = model(context=3), np.random.default_rng(0)
    many = DecisionTransformerPolicy(net, 1.0, discount=0.9, temperature=1.0).batched()
    single: dict[int, Any] = {}
    for turn in range(12):
        if turn % 4 == 0:
            begun = np.arange(turn // 4, turn // 4 + 2) * 2
            seeds = (100 * turn + begun).tolist()
            many.begin(begun, seeds)
            for row, seed in zip(begun.tolist(), seeds, strict=True):
                single[row] = [DecisionTransformerPolicy(net, 1.0, 0.9, 1.0), None]
                single[row][0].reset(seed)
        rows = np.array(sorted(single))[turn % 2 :]
        seen = rng.normal(size=(len(rows), SIZE)).astype(np.float32)
        masks, rewards = rng.integers(0, 2, size=(len(rows), ACTS)), rng.normal(size=len(rows))
        masks[:, 1] = 1
        chosen = many.actions(seen, masks.astype(np.int8), rows)
        many.rewarded(rows, rewards)
        for place, row in enumerate(rows.tolist()):
            policy, state = single[row]
            action, single[row][1] = policy.predict(seen[place], state, action_masks=masks[place])
            policy.rewarded(rewards[place])
            assert action == chosen[place]
            assert policy.propensity == pytest.approx(many.propensities[place], abs=1e-5)


def test_vectors_side_by_side_are_those_of_single_conversations():
    policy = DecisionTransformerPolicy(model(discrete=False), 1.0)
    many, rows = policy.batched(), np.arange(3)
    many.begin(rows, [0, 1, 2])
    seen = np.random.default_rng(0).normal(size=(2, 3, SIZE)).astype(np.float32)
    masks = np.ones((3, 1), np.int8)
    first, second = many.actions(seen[0], masks, rows), many.actions(seen[1], masks, rows)
    assert second.shape == (3, ACTS) and np.isnan(many.propensities).all()
    for row in rows:
        policy.reset(0)
        action, state = policy.predict(seen[0, row])
        assert np.allclose(action, first[row], atol=1e-5)
        assert np.allclose(policy.predict(seen[1, row], state)[0], second[row], atol=1e-5)


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"width": 30, "heads": 4}, "multiple"),
        ({"context_length": 0}, "context_length"),
        ({"dropout": 1.0}, "dropout"),
        ({"max_return": 0.0}, "max_return"),
        ({"actor_learning_rate": 0.0}, "actor_learning_rate"),
        ({"discount": 0.0}, "discount"),
        ({"hidden": (64,)}, "does not read it"),
        ({"learning_rate": 0.1}, "does not read it"),
        ({"reward_scale": 2.0}, "does not read it"),
    ],
)
def test_bad_options_are_one_sentence(options, said):
    with pytest.raises(InvalidConfiguration, match=said):
        DecisionTransformerConfig(**options)
    with pytest.raises(InvalidConfiguration, match="temperature"):
        ContinuousDecisionTransformerConfig(temperature=1.0)


@pytest.mark.parametrize("discrete", [True, False], ids=["acts", "vectors"])
def test_the_registry_knows_it_and_its_options_come_back_from_json(discrete):
    config = config_of("decision_transformer", discrete=discrete)(context_length=7, max_return=3.0)
    assert config.discrete == discrete
    assert config_from_dict(config.to_dict()) == config


def test_returns_are_divided_and_asked_for_as_the_data_have_them():
    turns = Transitions(episodes([3, 4, 2]))
    firsts = turns[torch.tensor([0, 3, 7])]["returns_to_go"]
    shapes, config = Shapes(SIZE, ACTS, True), DecisionTransformerConfig(**SMALL)
    learning = config.build(shapes, turns)
    assert learning.model.architecture.max_return == pytest.approx(float(firsts.abs().max()))
    assert learning.policy().target_return == pytest.approx(float(firsts.max()))
    given = DecisionTransformerConfig(max_return=8.0, target_return=5.0, **SMALL)
    learning = given.build(shapes, turns)
    assert learning.model.architecture.max_return == 8.0
    assert learning.policy().target_return == 5.0


def test_the_learning_rate_warms_up():
    config = DecisionTransformerConfig(warmup_steps=4, actor_learning_rate=0.02, **SMALL)
    learner = config.create()
    turns, rates = learner.build(episodes([2, 3]), Shapes(SIZE, ACTS, True)), []
    for _ in range(6):
        learner.update(config.items(turns)[torch.arange(2)])
        rates.append(learner.algorithm.optimizers["model"].param_groups[0]["lr"])
    assert rates == pytest.approx([0.005, 0.01, 0.015, 0.02, 0.02, 0.02])


class Stored:
    """As much of a Minari dataset as is read."""

    action_space = spaces.Discrete(ACTS)

    @dataclass
    class Episode:
        id: int
        observations: Any
        actions: Any
        rewards: Any
        terminations: Any
        truncations: Any
        infos: Any

    def iterate_episodes(self):
        no, end = np.zeros(3, bool), np.arange(3) == 2
        for number in range(2):
            yield self.Episode(
                number, np.zeros((4, SIZE), np.float32), np.zeros(3, np.int64),
                np.array([0.0, 0.0, 1.0]), end, no, {},
            )  # fmt: skip


def test_returns_of_a_stored_dataset_have_the_configs_discount():
    config = DecisionTransformerConfig(discount=0.5, **SMALL)
    turns = config.create().build(Stored())
    assert turns[torch.arange(3)]["returns_to_go"].tolist() == [0.25, 0.5, 1.0]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("discrete", [True, False], ids=["acts", "vectors"])
def test_who_was_stopped_ends_with_the_same_weights(tmp_path, discrete, precision):
    kind = DecisionTransformerConfig if discrete else ContinuousDecisionTransformerConfig
    config = kind(
        context_length=4, dropout=0.2, warmup_steps=20, batch_size=4, precision=precision, **SMALL
    )
    data, shapes = episodes([3, 9, 2, 5, 4], discrete), Shapes(SIZE, ACTS, discrete)

    def weights(steps, checkpoint=None):
        learner = config.create()
        learner.fit(data, steps, shapes=shapes, checkpoint=checkpoint, report_every=7)
        return learner.algorithm.parts.state_dict(), learner.history

    weights(11, tmp_path / "stopped.zip")
    resumed, history = weights(25, tmp_path / "stopped.zip")
    whole, told = weights(25)
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)
    assert history[-1] == told[-1]
