"""A policy learns what a judge likes, by pairs, by a reward model, or by the judge's scores."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from convgym.language.models import Completion

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import tiny_model, tiny_tokenizer  # noqa: E402

from trainers.llm.chat_format import ChatFormat  # noqa: E402
from trainers.llm.conversations import Chat  # noqa: E402
from trainers.llm.dpo import DPOConfig  # noqa: E402
from trainers.llm.judge import (  # noqa: E402
    JudgeReward,
    RubricJudge,
    RuleJudge,
    judged_preferences,
    judged_rollouts,
)
from trainers.llm.language_model import LanguageModel  # noqa: E402
from trainers.llm.policy_config import PolicyOptimizerConfig  # noqa: E402
from trainers.llm.policy_optimizer import PolicyOptimizer  # noqa: E402
from trainers.llm.preferences import preferences_of  # noqa: E402
from trainers.llm.reward_model import RewardModel, RewardModelConfig  # noqa: E402
from trainers.llm.rollout_engine import RolloutEngine  # noqa: E402
from trainers.llm.sampling import Sampling  # noqa: E402
from trainers.llm.sft import SFTConfig  # noqa: E402
from trainers.llm.text_environment import TextEnvironment  # noqa: E402
from trainers.llm.tokens import conversation_row  # noqa: E402

REPLIES = ("please wait", "wait", "no", "yes please")
SAMPLING = Sampling(max_tokens=8, max_context=96)
TOKENIZER = tiny_tokenizer([*REPLIES, "Hello", "And now?"] * 9, 300)
FORM = ChatFormat(TOKENIZER)


class Asks(gym.Env):
    """Says hello, asks once more, and pays nothing."""

    observation_space, action_space = spaces.Text(64), spaces.Text(256)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.asked = False
        return "Hello", {}

    def step(self, action):
        over, self.asked = self.asked, True
        return "And now?", 0.0, over, False, {}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def politeness(messages):
    """Share of the agent's replies with a please."""
    said = [m["content"] for m in messages if m["role"] == "assistant"]
    return float(np.mean(["please" in text for text in said]))


def polite(rollouts):
    return np.mean([politeness(rollout.messages) for rollout in rollouts])


def odd(rollouts):
    """Share of replies that nobody taught."""
    said = [m["content"] for r in rollouts for m in r.messages if m["role"] == "assistant"]
    return np.mean([text not in REPLIES for text in said])


def small(seed):
    model = tiny_model(vocabulary=len(TOKENIZER), width=16, seed=seed)
    return LanguageModel(model, TOKENIZER)


def talker():
    """A model that says the four replies, each about as often."""
    rows, nothing = [], np.zeros(2)
    for number, reply in enumerate(REPLIES):
        said = ("Hello", reply, "And now?", REPLIES[(number + 1) % 4])
        roles = ("user", "assistant") * 2
        messages = [{"role": r, "content": t} for r, t in zip(roles, said, strict=True)]
        rows.append(conversation_row(Chat(tuple(messages), nothing, nothing, True), TOKENIZER))
    model = small(0)
    SFTConfig(learning_rate=1e-2, batch_size=8).create(model).fit(rows, 100)
    return model


def engine(model, reward_fn=None):
    return RolloutEngine(TextEnvironment(Asks, reward_fn), model.causal, FORM, SAMPLING)


def by_verdicts(rollouts, judge):
    pairs, report = judged_preferences(judge, rollouts, most_per_group=6)
    assert 0.2 < report.agreement < 1.0 and report.failed == 0  # equals are told apart by place
    return pairs


def by_reward_model(rollouts, judge):
    labelled = preferences_of(judged_rollouts(judge, rollouts), most_per_group=12)
    config = RewardModelConfig(learning_rate=3e-3, batch_size=8)
    reward = config.create(RewardModel(small(1))).fit(labelled, 60).model
    scores = reward.score([rollout.messages for rollout in rollouts])
    earned = [
        replace(rollout, rewards=np.array([0.0, score]))
        for rollout, score in zip(rollouts, scores, strict=True)
    ]
    return preferences_of(earned, most_per_group=6, least_margin=0.5)


@pytest.mark.parametrize("pairs_of", [by_verdicts, by_reward_model])
def test_pairs_by_a_judge_teach_a_policy(pairs_of):
    """The judge likes what is shown first a little, and a policy of no please becomes polite."""
    model = talker()
    judge = RubricJudge(model=RuleJudge(politeness, bias=0.05))
    before = engine(model).collect(range(32), group_size=8, rng_seed=0)
    pairs = pairs_of(before, judge)
    DPOConfig(learning_rate=2e-3, batch_size=16, imitation=0.3).create(model).fit(pairs, 60)
    after = engine(model).collect(range(100, 116), group_size=8, rng_seed=1)
    assert 0.25 < polite(before) < 0.75
    assert polite(after) > 0.9
    assert odd(before) < 0.1 and odd(after) < 0.2  # and not by saying what nobody taught


def test_a_reward_model_is_a_reward_of_the_loop():
    """Its reward is that of the messages that the rollout kept, the user's last words included."""
    model, reward = talker(), RewardModel(small(1))
    found = engine(model, reward).collect([0, 1], group_size=2, rng_seed=0)
    scores = reward.score([rollout.messages for rollout in found])
    assert [rollout.return_ for rollout in found] == pytest.approx(scores.tolist(), abs=1e-5)
    assert not any(rollout.error for rollout in found)


def test_a_policy_optimizer_learns_from_a_judge_that_fails_at_times():
    """Every fifth answer is nonsense: its rollout has an error, no score, and the run goes on."""
    rule, asked = RuleJudge(politeness), []

    def unsteady(prompt):
        asked.append(prompt)
        return "I cannot say." if len(asked) % 5 == 0 else rule(prompt)

    model = talker()
    reward = JudgeReward(RubricJudge(model=unsteady))
    before = engine(model).collect(range(8), group_size=8, rng_seed=0)
    config = PolicyOptimizerConfig(
        iterations=30, seeds_per_iteration=4, group_size=8, learning_rate=2e-3, sampling=SAMPLING
    )
    rows = PolicyOptimizer(model, engine(model, reward), config).train()
    after = engine(model).collect(range(100, 108), group_size=8, rng_seed=1)
    assert len(rows) == 30 and len(asked) >= 30 * 32
    played = engine(model, reward).collect(range(4), group_size=8, rng_seed=2)
    failed = [rollout for rollout in played if rollout.error]
    assert 6 <= len(failed) <= 7
    assert all("JudgeFailed: the judge gave no answer: no score" in r.error for r in failed)
    assert polite(before) < 0.75 and polite(after) > 0.9


def test_a_whole_iteration_may_be_judged_at_once():
    rule, batches = RuleJudge(politeness), []

    class Endpoint:
        def complete(self, prompts, seeds):
            batches.append(len(prompts))
            return [Completion(rule(prompt[0].content)) for prompt in prompts]

    judge, prepared = RubricJudge(model=Endpoint()), []

    def judged(rollouts):
        prepared.append(judged_rollouts(judge, rollouts))
        return prepared[-1]

    model = talker()
    config = PolicyOptimizerConfig(
        iterations=2, seeds_per_iteration=2, group_size=8, learning_rate=2e-3, sampling=SAMPLING
    )
    before = [weights.detach().clone() for weights in model.trainable().values()]
    PolicyOptimizer(model, engine(model), config, prepare=[judged]).train()
    assert len(batches) == 2 and all(1 < size <= 16 for size in batches)
    assert all(r.return_ == politeness(r.messages) for rollouts in prepared for r in rollouts)
    pairs = zip(before, model.trainable().values(), strict=True)
    assert not all(torch.equal(old, new) for old, new in pairs)  # the environment pays nothing
