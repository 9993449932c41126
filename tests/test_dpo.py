"""DPO: the loss by hand, a reply that wins and no other, and training that goes on bit by bit."""

import copy
import math

import numpy as np
import pytest

from convgym.errors import InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import tiny_model, tiny_tokenizer  # noqa: E402

from trainers.llm.chat_format import ChatFormat  # noqa: E402
from trainers.llm.dpo import DPO, DPOConfig  # noqa: E402
from trainers.llm.language_model import LanguageModel, LoRA  # noqa: E402
from trainers.llm.preferences import Preference, in_tokens  # noqa: E402
from trainers.llm.rollouts import Segment  # noqa: E402

PROMPT, GOOD, BAD, THIRD, END = range(5)
OTHER = 5


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def language_model(seed=0, lora=None):
    return LanguageModel(tiny_model(vocabulary=8, width=16, seed=seed), None, lora=lora)


def segment(*tokens, prompt=PROMPT):
    turns = np.array([-1] + [0] * len(tokens))
    return Segment(np.array([prompt, *tokens]), turns, np.zeros(len(turns), dtype=np.float32))


def pair(chosen, rejected, prompt=PROMPT):
    return Preference(
        chosen_segments=(segment(*chosen, END, prompt=prompt),),
        rejected_segments=(segment(*rejected, END, prompt=prompt),),
    )


PAIRS = [pair([GOOD], [BAD]), pair([GOOD, GOOD], [BAD, THIRD]), pair([GOOD], [BAD, BAD])]


def first_token(model, prompt=PROMPT):
    """Probabilities of the token after the prompt."""
    with torch.no_grad():
        return model.causal(torch.tensor([[prompt]])).logits[0, -1].double().softmax(-1)


def log_prob(model, segment):
    """The plain way: one row, all logits."""
    with torch.no_grad():
        logits = model.causal(torch.tensor(segment.tokens)[None]).logits[0].double()
    picked = logits.log_softmax(-1)[:-1].gather(1, torch.tensor(segment.tokens[1:])[:, None])[:, 0]
    return float(picked[torch.tensor(segment.turns[1:] >= 0)].sum())


def same_weights(one, other):
    pairs = zip(one.module.state_dict().values(), other.module.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_the_first_step_is_log_2_and_what_follows_is_the_loss_by_hand():
    model = language_model()
    before = copy.deepcopy(model)
    dpo, seen = DPOConfig(learning_rate=1e-2, batch_size=3).create(model), []
    dpo.fit(PAIRS, 1, lambda step, row: seen.append((step, row)))
    assert seen[0][0] == 1
    assert seen[0][1]["loss"] == pytest.approx(math.log(2), abs=1e-6)
    differences = []
    for one in PAIRS:
        chosen, rejected = one.chosen_segments[0], one.rejected_segments[0]
        policy = log_prob(model, chosen) - log_prob(model, rejected)
        differences.append(0.1 * (policy - log_prob(before, chosen) + log_prob(before, rejected)))
    found = dpo.measure(PAIRS)
    assert found["margin"] == pytest.approx(np.mean(differences), abs=1e-5)
    assert found["loss"] == pytest.approx(np.mean([math.log1p(math.exp(-d)) for d in differences]),
                                          abs=1e-5)  # fmt: skip
    assert found["accuracy"] == np.mean([d > 0 for d in differences])


def test_segments_of_a_conversation_add_up():
    """Two segments are two rows and one conversation."""
    model = language_model()
    whole = Preference(
        chosen_segments=(segment(GOOD, END), segment(GOOD, GOOD, END)),
        rejected_segments=(segment(BAD, END),),
    )
    dpo = DPOConfig().create(model).remember([whole])
    by_hand = sum(log_prob(model, one) for one in whole.chosen_segments)
    assert sorted(dpo._known.values()) == pytest.approx(
        sorted([by_hand, log_prob(model, whole.rejected_segments[0])]), abs=1e-5
    )


def test_what_the_user_said_is_not_learnt():
    """Sides that differ in what the user answered only: sampled tokens are equal, no gradient."""
    turns = np.array([-1, 0, -1])
    zeros = np.zeros(3, dtype=np.float32)
    one = Segment(np.array([PROMPT, GOOD, THIRD]), turns, zeros)
    other = Segment(np.array([PROMPT, GOOD, BAD]), turns, zeros)
    seen = []
    same = Preference(chosen_segments=(one,), rejected_segments=(other,))
    DPOConfig(batch_size=1).create(language_model()).fit([same], 1, lambda _, r: seen.append(r))
    assert seen[0]["grad_norm"] == pytest.approx(0.0, abs=1e-6)


REST = [token for token in range(8) if token not in (GOOD, BAD)]


def learnt_words(imitation):
    """The model before and after, on both prompts: (before, after), (before, after)."""
    model = language_model()
    before = first_token(model), first_token(model, OTHER)
    config = DPOConfig(learning_rate=3e-3, imitation=imitation, batch_size=4, beta=0.5)
    # on the other prompt the words change places: the model must read, not only shift its bias
    pairs = [pair([GOOD], [BAD]), pair([BAD], [GOOD], prompt=OTHER)]
    dpo = config.create(model).fit(pairs, 120)
    assert dpo.measure(pairs)["accuracy"] == 1.0
    return zip(before, (first_token(model), first_token(model, OTHER)), strict=True)


def test_the_preferred_word_wins_and_what_no_pair_mentions_gains_nothing():
    (before, after), (before_elsewhere, elsewhere) = learnt_words(imitation=0.5)
    assert after[GOOD] > 0.8 and after[BAD] < 0.1 * before[BAD]
    assert elsewhere[BAD] > 0.8 and elsewhere[GOOD] < 0.1 * before_elsewhere[GOOD]
    assert (after[REST] < 0.5 * before[REST]).all()
    assert (elsewhere[REST] < 0.5 * before_elsewhere[REST]).all()


def test_without_imitation_the_ratio_moves_and_others_may_gain():
    """As the module's first lines say; a loss of differences cannot know of them."""
    (before, after), _ = learnt_words(imitation=0.0)
    assert after[GOOD] / after[BAD] > 20 * before[GOOD] / before[BAD]
    assert (after[REST] > 2 * before[REST]).any()


def test_smoothed_labels_have_a_best_margin():
    """log((1 − ε) / ε)."""
    config = DPOConfig(learning_rate=3e-3, label_smoothing=0.2, beta=0.5, batch_size=1)
    dpo = config.create(language_model()).fit([pair([GOOD], [BAD])], 300)
    assert dpo.measure([pair([GOOD], [BAD])])["margin"] == pytest.approx(math.log(4), abs=0.05)


def test_micro_batches_change_no_step():
    steps = []
    for size in (None, 1, 2):
        seen = []
        config = DPOConfig(learning_rate=1e-2, batch_size=5, micro_batch_size=size, imitation=0.3)
        config.create(language_model()).fit(PAIRS, 3, lambda _, row, seen=seen: seen.append(row))
        steps.append([[row[name] for name in sorted(row)] for row in seen])
    assert np.allclose(steps[0], steps[1], atol=1e-5)
    assert np.allclose(steps[0], steps[2], atol=1e-5)


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)], ids=["full", "adapters"])
def test_training_goes_on_bit_by_bit_after_a_break(lora, tmp_path):
    if lora is not None:
        pytest.importorskip("peft", reason="peft is not installed")
    config = DPOConfig(learning_rate=1e-2, batch_size=2, warmup=4)
    whole = config.create(language_model(lora=lora)).fit(PAIRS, 7)
    config.create(language_model(lora=lora)).fit(PAIRS, 3).save(tmp_path / "broken.zip")
    fresh = language_model(lora=lora, seed=0 if lora else 9)  # adapters stand on the same base
    resumed = DPO.load(tmp_path / "broken.zip", fresh).fit(PAIRS, 4)
    assert (resumed.step, resumed.config) == (whole.step, whole.config)
    assert same_weights(resumed.model, whole.model)
    assert not same_weights(whole.model, language_model(lora=lora))
    for learner, name in ((whole, "whole"), (resumed, "resumed")):
        learner.save(tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


def test_new_pairs_after_the_first_step_need_a_frozen_reference():
    new = pair([THIRD], [BAD])
    dpo = DPOConfig(batch_size=3).create(language_model()).fit(PAIRS, 1)
    with pytest.raises(InvalidConfiguration, match="1 conversations are new to DPO after step 1"):
        dpo.fit([pair([THIRD], [BAD])], 1)
    model = language_model()
    frozen = copy.deepcopy(model)
    dpo = DPOConfig(batch_size=3, learning_rate=1e-2).create(model, frozen).fit(PAIRS, 2)
    dpo.remember([new])
    kept = dpo.measure([new])
    by_hand = log_prob(model, new.chosen_segments[0]) - log_prob(frozen, new.chosen_segments[0])
    assert kept["chosen_reward"] == pytest.approx(0.1 * by_hand, abs=1e-5)


def test_no_pairs_are_nothing_to_measure():
    with pytest.raises(InvalidConfiguration, match="no preferences to measure"):
        DPOConfig().create(language_model()).measure([])


def test_pairs_of_words_are_refused_until_they_are_tokens():
    words = Preference(
        prompt=({"role": "user", "content": "Well?"},),
        chosen=({"role": "assistant", "content": "Yes"},),
        rejected=({"role": "assistant", "content": "No"},),
    )
    tokenizer = tiny_tokenizer()
    model = LanguageModel(tiny_model(vocabulary=len(tokenizer), width=16), tokenizer)
    with pytest.raises(InvalidConfiguration, match="in_tokens"):
        DPOConfig().create(model).fit([words], 1)
    pairs = in_tokens([words], ChatFormat(tokenizer))
    dpo = DPOConfig(learning_rate=1e-2).create(model).fit(pairs, 2)
    assert dpo.measure(pairs)["margin"] > 0


def test_a_file_of_another_shape_is_refused(tmp_path):
    DPOConfig().create(language_model()).save(tmp_path / "dpo.zip")
    other = LanguageModel(tiny_model(vocabulary=9, width=16), None)
    with pytest.raises(InvalidConfiguration, match="of the shape that was trained"):
        DPO.load(tmp_path / "dpo.zip", other)


@pytest.mark.parametrize(
    "keywords",
    [
        {"beta": 0.0}, {"beta": math.inf}, {"label_smoothing": 0.5}, {"imitation": -1.0},
        {"learning_rate": 0.0}, {"warmup": -1}, {"batch_size": 0}, {"micro_batch_size": 0},
        {"max_grad_norm": 0.0}, {"weight_decay": -0.1},
    ],
)  # fmt: skip
def test_a_bad_value_is_one_sentence(keywords):
    with pytest.raises(InvalidConfiguration, match=next(iter(keywords))):
        DPOConfig(**keywords)
