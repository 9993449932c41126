"""Several domains learnt by one learner, and a policy for each of them."""

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import convgym  # noqa: E402, F401  registers the environments
from convgym.data.transitions import EpisodeArrays, returns_to_go  # noqa: E402
from convgym.domains.catalogue import domain_called  # noqa: E402
from convgym.errors import DatasetError, InvalidConfiguration  # noqa: E402
from convgym.evaluation.rollout import play  # noqa: E402
from convgym.policies.policy import RandomPolicy  # noqa: E402
from convgym.policies.scripted import PlannerPolicy  # noqa: E402
from trainers import toy_dialogue as toy  # noqa: E402
from trainers.offline.multi_task import MultiTask, Task  # noqa: E402
from trainers.offline.registry import config_of  # noqa: E402

torch.set_num_threads(1)


def recorded(env_id, domain, policy, count):
    """Conversations in acts, by number and with masks."""
    env = gym.make(env_id, observation="features", action="act", reward="milestones")
    made = []
    for seed in range(count):
        one = play(env, policy, seed=seed)
        rewards = np.array(one.rewards)
        made.append(
            EpisodeArrays(
                np.array(one.observations), np.array(one.actions), rewards, one.terminated,
                not one.terminated, returns_to_go(rewards, 0.98),
                np.array([info["action_mask"] for info in one.infos]),
            )
        )  # fmt: skip
    return Task(made, domain_called(domain).actions.names)


@pytest.fixture(scope="module")
def joint():
    return MultiTask(
        {
            "desk": recorded(
                "ConvGym/CustomerService-v0", "customer-service",
                PlannerPolicy(noise=0.1), 60,
            ),
            "sales": recorded("ConvGym/Sales-v0", "sales", RandomPolicy(), 20),
        }
    )  # fmt: skip


def test_joined_data_hold_each_domains_rows_acts_and_masks(joint):
    episodes = joint.episodes()
    assert len(episodes) == 80 and joint.names == ("desk", "sales")
    shapes = joint.shapes
    desk, sales = (joint.tasks[name] for name in joint.names)
    shared = set(desk.acts) & set(sales.acts)
    assert shared, "some acts are the same in both"
    assert shapes.actions == len(desk.acts) + len(sales.acts) - len(shared)
    for place, (name, task) in enumerate(joint.tasks.items()):
        for own, made in zip(task.episodes, episodes[60 * place :], strict=False):
            size = own.observations.shape[1]
            assert np.array_equal(made.observations[:, :size], own.observations)
            assert (made.observations[:, size : joint.width] == 0).all()
            one_hot = np.eye(2)[place]
            assert (made.observations[:, joint.width :] == one_hot).all()
            assert [joint.acts[a] for a in made.actions] == [task.acts[a] for a in own.actions]
            for union, mask in zip(made.masks, own.masks, strict=True):
                legal = {joint.acts[a] for a in np.flatnonzero(union)}
                assert legal == {task.acts[a] for a in np.flatnonzero(mask)}
        assert joint.own(name, joint.acts.index(task.acts[3])) == 3


def test_one_learner_plays_two_domains_in_their_own_acts(joint):
    learner = config_of("bc", discrete=True)(hidden=(64,), batch_size=64).create()
    policies = joint.policies(learner.fit(joint.episodes(), 150, shapes=joint.shapes))
    assert list(policies) == ["desk", "sales"]
    for name, env_id in (("desk", "ConvGym/CustomerService-v0"), ("sales", "ConvGym/Sales-v0")):
        env = gym.make(env_id, observation="features", action="act")
        played = play(env, policies[name], seed=5)
        assert played.length > 1 and policies[name].propensity == 1.0
        for act, info in zip(played.actions, played.infos, strict=False):
            assert info["action_mask"][act]


def test_two_conversations_of_unlike_rows_are_learnt_together():
    """The toy conversation, once with rows of 24 numbers and once of 40 and its acts renamed."""
    tasks, envs = {}, {}
    for name, size, shift in (("one", 24, 0), ("other", 40, 5)):
        envs[name] = toy.ToyDialogue(size=size, noise=0.1)
        mixed = [toy.script(), toy.uniform()]
        data = toy.record(mixed, 300, env=envs[name], shares=(0.5, 0.5), seed=size)
        tasks[name] = Task(data, [f"act {a + shift}" for a in range(toy.ACTS)])
    joint = MultiTask(tasks)
    assert joint.shapes.actions == toy.ACTS + 5 and joint.shapes.observation == 42
    learner = config_of("bc", discrete=True)(hidden=(64, 64), best=0.4).create()
    policies = joint.policies(learner.fit(joint.episodes(), 600, shapes=joint.shapes))
    mask = np.ones(toy.ACTS, np.int8)
    for name, env in envs.items():
        policy = policies[name]
        policy.reset(0)
        table = np.eye(toy.ACTS)[
            [policy.predict(row, action_masks=mask)[0] for row in env.embedding]
        ]
        worth = env.model.values(table)[toy.START]
        assert worth > 0.5, "the behaviour earns 0.1, the best policy 0.73"


def test_what_does_not_fit_is_refused():
    acts = np.array([0, 1])
    two = EpisodeArrays(np.zeros((3, 2)), acts, np.zeros(2), True, False, np.zeros(2))
    with pytest.raises(InvalidConfiguration, match="no domains"):
        MultiTask({})
    with pytest.raises(DatasetError, match="no episodes of a"):
        MultiTask({"a": Task([], ["x"])})
    with pytest.raises(DatasetError, match="numbers from 0 to 0"):
        MultiTask({"a": Task([two], ["x"])})
    with pytest.raises(InvalidConfiguration, match="the same name"):
        MultiTask({"a": Task([two], ["x", "x"])})
    with pytest.raises(InvalidConfiguration, match="has 3 numbers; its data have 2"):
        MultiTask({"a": Task([two], ["x", "y"])}).rows("a", np.zeros((1, 3)))
