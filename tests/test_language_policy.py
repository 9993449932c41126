"""A language model as a policy: it speaks as it did while learning, and travels as one file."""

import copy
import pickle
import zipfile

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("transformers", reason="language models need the extra llm")

import torch
from text_environments import Echo, Messages, Parts, Summary, Transcript
from tiny_models import tiny_model, tiny_tokenizer

import convgym  # noqa: F401  registers the ids
from convgym.cli.learners import policy_in
from convgym.cli.policies import fits
from convgym.errors import InvalidConfiguration
from convgym.evaluation.rollout import play
from trainers.llm.chat_format import ChatFormat
from trainers.llm.embedded.folder import embedded_folder
from trainers.llm.entry import is_policy
from trainers.llm.language_model import LanguageModel, LoRA
from trainers.llm.language_policy import LanguagePolicy
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler

GREEDY = Sampling(temperature=0.0, max_tokens=8, max_context=384)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(lora=None):
    tokenizer = tiny_tokenizer()
    return LanguageModel(tiny_model("llama", vocabulary=len(tokenizer)), tokenizer, lora)


def said_by_engine(model, environment, seed, sampling):
    engine = RolloutEngine(
        TextEnvironment(environment), TransformersSampler(model.causal),
        ChatFormat(model.tokenizer), sampling, slots=2,
    )  # fmt: skip
    (rollout,) = engine.collect([seed], 1, rng_seed=0)
    return [one["content"] for one in rollout.messages if one["role"] == "assistant"], rollout


@pytest.mark.parametrize("environment", [Echo, Transcript, Summary, Messages, Parts])
def test_it_reads_every_kind_of_observation_as_the_rollouts_do(environment):
    model = tiny()
    expected, rollout = said_by_engine(model, environment, 5, GREEDY)
    assert not rollout.error and len(expected) > 2
    policy = LanguagePolicy(model, GREEDY, prompt=getattr(environment, "system_prompt", ""))
    played = play(environment(), policy, seed=5)
    assert played.actions == expected and played.return_ == rollout.return_


def test_the_embedded_model_plays_its_task_as_the_rollouts_do():
    model = LanguageModel.load(embedded_folder())
    sampling = Sampling(temperature=0.0, max_tokens=24, max_context=512)
    policy = LanguagePolicy(model, sampling, system="")
    for seed in (1, 2):
        env = gym.make("ConvGym/OneRequest-v0", disable_env_checker=True)
        engine = RolloutEngine(
            TextEnvironment("ConvGym/OneRequest-v0", system=""), TransformersSampler(model.causal),
            ChatFormat(model.tokenizer), sampling, slots=1,
        )  # fmt: skip
        (rollout,) = engine.collect([seed], 1, rng_seed=0)
        said = [one["content"] for one in rollout.messages if one["role"] == "assistant"]
        played = play(env, policy, seed=seed)
        assert played.actions[: len(said)] == said
        assert bool(played.final_info["success"]) == rollout.success or len(said) < played.length


def test_the_seed_decides_what_is_drawn():
    policy = LanguagePolicy(tiny(), Sampling(max_tokens=8, max_context=384))
    first, again, other = (
        play(Echo(), policy, seed=5, policy_seed=drawn).actions for drawn in (1, 1, 2)
    )
    assert first == again != other
    likeliest = [play(Echo(), policy, seed=5, policy_seed=s, deterministic=True) for s in (1, 2)]
    assert likeliest[0].actions == likeliest[1].actions


def test_what_has_no_room_is_answered_with_silence():
    policy = LanguagePolicy(tiny(), Sampling(max_tokens=8, max_context=60))
    env = Echo(turns=6)
    played = play(env, policy, seed=0)
    assert played.terminated and played.actions[0] and played.actions[-1] == ""
    again = play(env, policy, seed=0)
    assert again.actions == played.actions


def test_rules_on_the_page_stand_first():
    model, heard = tiny(), []
    policy = LanguagePolicy(model, GREEDY, prompt="as I learnt")
    policy.predict({"message": "Hello", "policy": "Be kind.", "tools": "[]", "tool_results": ""})
    heard.append(policy._record.context.copy())
    opening = [{"role": "system", "content": "Be kind.\n\nTools:\n[]"},
               {"role": "user", "content": "Hello"}]  # fmt: skip
    known = ChatFormat(model.tokenizer).opening(opening)
    assert heard[0][: len(known)].tolist() == known
    for system, words in ((None, "as I learnt"), ("Mine.", "Mine.")):
        told = LanguagePolicy(model, GREEDY, system=system, prompt="as I learnt")
        told.predict("Hello")
        begun = ChatFormat(model.tokenizer).opening(
            [{"role": "system", "content": words}, opening[1]]
        )
        assert told._record.context[: len(begun)].tolist() == begun


@pytest.mark.parametrize("observation", [np.zeros(3), 7, {"features": np.zeros(2)}], ids=str)
def test_numbers_are_refused_in_a_sentence(observation):
    with pytest.raises(InvalidConfiguration, match="reads texts"):
        LanguagePolicy(tiny()).predict(observation)


def test_environments_of_acts_are_refused():
    env = gym.make("ConvGym/CustomerService-v0", observation="features", action="act",
                   disable_env_checker=True)  # fmt: skip
    with pytest.raises(InvalidConfiguration, match="replies in texts"):
        fits(LanguagePolicy(tiny()), env)


def test_copies_have_conversations_of_their_own():
    one = LanguagePolicy(tiny(), GREEDY)
    first, _ = one.predict("Hello")
    other = copy.copy(one)
    assert other.model is one.model and other.predict("Hello")[0] == first
    assert one.predict("And now?")[0] == other.predict("And now?")[0]
    one.reset(0)
    assert one.predict("Hello")[0] == first


def test_a_flag_begins_a_conversation_too():
    policy = LanguagePolicy(tiny(), GREEDY)
    first, _ = policy.predict("Hello", episode_start=True)
    policy.predict("And now?", episode_start=False)
    assert policy.predict("Hello", episode_start=np.array([True]))[0] == first


# -- file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)], ids=["whole", "adapters"])
def test_it_comes_back_from_its_file(lora, tmp_path):
    policy = LanguagePolicy(tiny(lora), GREEDY, system="Be kind.", prompt="x", origin="tiny")
    if lora is not None:
        with torch.no_grad():
            for name, weights in policy.model.trainable().items():
                if "lora_B" in name:
                    weights.add_(0.3)
    path = tmp_path / "policy.zip"
    policy.save(path)
    assert is_policy(path) and [file.name for file in tmp_path.iterdir()] == ["policy.zip"]
    for back in (LanguagePolicy.load(path), policy_in(path)):
        assert (back.system, back.prompt, back.origin) == ("Be kind.", "x", "tiny")
        assert back.sampling == GREEDY and back.model.has_adapter == (lora is not None)
        assert play(Echo(), back, seed=3).actions == play(Echo(), policy, seed=3).actions
    sent = pickle.loads(pickle.dumps(back))
    assert play(Echo(), sent, seed=3).actions == play(Echo(), policy, seed=3).actions
    content = path.read_bytes()
    policy.save(path)
    assert path.read_bytes() == content


def test_adapters_of_the_embedded_model_find_it_on_another_machine(tmp_path, monkeypatch):
    model = LanguageModel.load(embedded_folder(), lora=LoRA(rank=2))
    path = tmp_path / "policy.zip"
    LanguagePolicy(model, GREEDY, system="", origin="embedded").save(path)
    with zipfile.ZipFile(path) as archive:
        about = archive.read("adapter_config.json").decode()
    moved = about.replace(str(embedded_folder()), "/nowhere/model")
    assert moved != about
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(other, "w") as to:
        for name in archive.namelist():
            to.writestr(name, moved if name == "adapter_config.json" else archive.read(name))
    one, two = LanguagePolicy.load(path), LanguagePolicy.load(other)
    assert one.predict("Hello")[0] == two.predict("Hello")[0]


def test_a_policy_without_a_file_is_not_sent_elsewhere():
    with pytest.raises(TypeError, match="save and load it"):
        pickle.dumps(LanguagePolicy(tiny()))


def test_other_files_are_none(tmp_path):
    path = tmp_path / "policy.zip"
    path.write_bytes(b"PK\x03\x04 damaged")
    assert not is_policy(path) and not is_policy(tmp_path / "none.zip")
    with pytest.raises(InvalidConfiguration, match="holds no convgym language policy"):
        LanguagePolicy.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("policy.json", '{"format": "convgym tabular policy 1"}')
    assert not is_policy(path)
