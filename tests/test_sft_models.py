"""Supervised fine-tuning of language models: whole, with adapters, from recorded conversations."""

import gymnasium as gym
import numpy as np
import pytest

from convgym.errors import InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import tiny_model, tiny_tokenizer  # noqa: E402

from trainers.llm.conversations import Chat, read_chats  # noqa: E402
from trainers.llm.language_model import LanguageModel, LoRA  # noqa: E402
from trainers.llm.sft import SFT, SFTConfig  # noqa: E402
from trainers.llm.token_models import CausalLM, TokenGRU  # noqa: E402
from trainers.llm.tokens import conversation_row  # noqa: E402

TEXTS = ("Yes", "No", "Perhaps so")
TOKENIZER = tiny_tokenizer([*TEXTS, "Well?"] * 9, 290)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def row(text, reward=0.0):
    messages = ({"role": "user", "content": "Well?"}, {"role": "assistant", "content": text})
    return conversation_row(Chat(messages, np.array([reward]), np.array([reward]), True), TOKENIZER)


ROWS = [row(text, float(text == "Yes")) for text in TEXTS]


def causal(seed=0):
    return tiny_model(vocabulary=len(TOKENIZER), width=16, seed=seed)


def losses(config, model, steps=3):
    found = []
    config.create(model).fit(ROWS, steps, lambda _, measured: found.append(measured["loss"]))
    return found


def said(sft, talks=30):
    prompt = ROWS[0].input_ids[: int(np.argmax(ROWS[0].turns >= 0))]
    policy = sft.policy(end=TOKENIZER.eos_token_id, limit=8)
    replies = policy.reply([prompt] * talks)
    return [TOKENIZER.decode(reply, skip_special_tokens=True) for reply in replies]


def test_three_ways_to_give_a_model_are_one_loss():
    config = SFTConfig(batch_size=4)
    language = losses(config, LanguageModel(causal(), TOKENIZER))
    assert losses(config, CausalLM(causal())) == pytest.approx(language, abs=1e-5)
    assert losses(config, causal()) == pytest.approx(language, abs=1e-5)


@pytest.mark.parametrize("wrap", [CausalLM, lambda m: LanguageModel(m, TOKENIZER)])
def test_micro_batches_change_no_loss(wrap):
    """Rows differ in length, so a mean of means would."""
    whole = losses(SFTConfig(batch_size=5, learning_rate=1e-2), wrap(causal()))
    split = SFTConfig(batch_size=5, learning_rate=1e-2, micro_batch_size=2)
    assert losses(split, wrap(causal())) == pytest.approx(whole, abs=1e-4)
    with pytest.raises(InvalidConfiguration, match="micro_batch_size=0"):
        SFTConfig(micro_batch_size=0)


def test_a_language_model_is_trained_in_place_and_on_the_best_alone():
    model = LanguageModel(causal(), TOKENIZER)
    sft = SFTConfig(learning_rate=1e-2, batch_size=4, top_share=0.3).create(model).fit(ROWS, 60)
    assert said(sft).count("Yes") >= 29
    assert said(SFTConfig().create(model)).count("Yes") >= 29


@pytest.mark.parametrize("lora", [None, LoRA(rank=4)], ids=["full", "adapters"])
def test_training_goes_on_bit_by_bit_after_a_break(lora, tmp_path):
    if lora is not None:
        pytest.importorskip("peft", reason="peft is not installed")

    def model():
        return LanguageModel(causal(), TOKENIZER, lora=lora)

    config = SFTConfig(learning_rate=1e-2, batch_size=4)
    whole = config.create(model()).fit(ROWS, 5)
    config.create(model()).fit(ROWS, 2).save(tmp_path / "broken.zip")
    resumed = SFT.load(tmp_path / "broken.zip", model()).fit(ROWS, 3)
    for learner, name in ((whole, "whole"), (resumed, "resumed")):
        learner.save(tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()
    assert losses(config, whole._language, 1)[0] < losses(config, model(), 1)[0]


def test_adapters_alone_learn_and_are_kept(tmp_path):
    pytest.importorskip("peft", reason="peft is not installed")
    base = tiny_model(vocabulary=len(TOKENIZER), width=16, tie_word_embeddings=False)
    with torch.no_grad():  # a frozen head must tell words apart, as a trained one does
        base.lm_head.weight.mul_(80)
    before = {name: value.clone() for name, value in base.state_dict().items()}
    model = LanguageModel(base, TOKENIZER, lora=LoRA(rank=4, alpha=16))
    sft = SFTConfig(learning_rate=2e-2, batch_size=4, top_share=0.3).create(model).fit(ROWS, 60)
    assert said(sft).count("Yes") >= 20
    with model.module.disable_adapter():
        assert said(sft).count("Yes") <= 2
    beneath = {name.replace(".base_layer.", "."): v for name, v in base.state_dict().items()}
    assert all(torch.equal(beneath[name], value) for name, value in before.items())
    sft.save(tmp_path / "adapters.zip")
    SFTConfig().create(base).save(tmp_path / "whole.zip")
    sizes = [(tmp_path / f"{name}.zip").stat().st_size for name in ("adapters", "whole")]
    assert sizes[0] < sizes[1]  # weights and two moments of the adapters
    with pytest.raises(InvalidConfiguration, match="of the shape that was trained"):
        SFT.load(tmp_path / "adapters.zip", LanguageModel(causal(), TOKENIZER))


def test_no_model_is_refused_in_one_sentence():
    assert SFTConfig().create(TokenGRU(6)).model.vocabulary == 6
    with pytest.raises(InvalidConfiguration, match="a str is no model of tokens"):
        SFTConfig().create("gpt2")


def test_recorded_conversations_lower_the_loss_of_a_language_model(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    import convgym  # noqa: F401  registers the environments
    from convgym.data.episodes import collect, write_dataset
    from convgym.policies.rendered import RenderedPolicy
    from convgym.policies.scripted import PlannerPolicy

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = gym.make("ConvGym/CustomerService-v0", observation="dict", action="text")
    dataset = write_dataset(
        "convgym/sft-v0", env, collect(env, [(RenderedPolicy(PlannerPolicy(0.2)), 1.0)], 6, seed=3),
        description="A few conversations.", ref_min_score=0.0, ref_max_score=1.0,
        algorithm_name="planner",
    )  # fmt: skip
    rows = [conversation_row(chat, TOKENIZER) for chat in read_chats(dataset, system="Be kind.")]
    longest = max(len(row.input_ids) for row in rows)
    model = tiny_model(vocabulary=len(TOKENIZER), width=16, places=longest + 1)
    found = []
    config = SFTConfig(learning_rate=1e-2, batch_size=2, micro_batch_size=1, top_share=0.5)
    config.create(LanguageModel(model, TOKENIZER)).fit(
        rows, 12, lambda _, measured: found.append(measured["loss"])
    )
    assert np.mean(found[-2:]) < 0.8 * found[0]
