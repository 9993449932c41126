"""A reward model learns what people prefer, ranks what it has not seen, and says how sure it is."""

import itertools
import math

import numpy as np
import pytest

from convgym.errors import InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tiny_models import tiny_model, tiny_tokenizer  # noqa: E402

from trainers.llm.language_model import LanguageModel, LoRA  # noqa: E402
from trainers.llm.preferences import Preference  # noqa: E402
from trainers.llm.reward_model import (  # noqa: E402
    RewardLearner,
    RewardModel,
    RewardModelConfig,
    calibration,
)
from trainers.llm.rollouts import Segment  # noqa: E402

KIND = ("I am sorry", "Thank you", "Happy to help", "Please tell me")
RUDE = ("Not my job", "Read the page", "No idea", "Wait")
ENDS = ("now", "again", "today", "the order", "the box", "of it", "for that", "my friend")
CONFIG = RewardModelConfig(learning_rate=3e-3, batch_size=16)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pair(kind, rude, prompt="Where is my order?"):
    return Preference(
        prompt=({"role": "user", "content": prompt},),
        chosen=({"role": "assistant", "content": kind},),
        rejected=({"role": "assistant", "content": rude},),
    )


TOKENIZER = tiny_tokenizer([f"{said} {end}." for said in KIND + RUDE for end in ENDS], 340)
PAIRS = [
    pair(f"{kind} {one}.", f"{rude} {other}.")
    for kind, rude, one, other in itertools.product(KIND, RUDE, ENDS, ENDS)
]
# held out: no reply that ends so, on either side, is learnt from
HELD_OUT = [p for p in PAIRS if all(s[-1]["content"].endswith(ENDS[-1] + ".")
                                    for s in p.conversations)]  # fmt: skip
SEEN = [p for p in PAIRS if not any(s[-1]["content"].endswith(ENDS[-1] + ".")
                                    for s in p.conversations)]  # fmt: skip


def reward_model(seed=0, lora=None, **options):
    model = tiny_model(vocabulary=len(TOKENIZER), width=16, seed=seed)
    return RewardModel(LanguageModel(model, TOKENIZER, lora=lora), seed=seed, **options)


def test_it_ranks_held_out_pairs_and_is_centred():
    model = reward_model()
    before = model.calibration(HELD_OUT)
    learner = CONFIG.create(model).fit(SEEN, 60)
    after = model.calibration(HELD_OUT)
    assert before.accuracy < 0.9 < 0.95 < after.accuracy and after.pairs == len(HELD_OUT) == 16
    assert after.log_loss < 0.3 < before.log_loss
    sides = [side for one in SEEN for side in one.conversations]
    assert model.score(sides).mean() == pytest.approx(0.0, abs=1e-6)
    kind, rude = model.score(HELD_OUT[0].conversations)
    assert kind > 0 > rude
    assert learner.measure(HELD_OUT)["accuracy"] == after.accuracy


def test_a_reward_is_that_of_the_last_hidden_vector_whoever_stands_beside():
    model = reward_model()
    sides = [side for one in PAIRS[::97] for side in one.conversations]
    together = model.score(sides)
    for messages, found in zip(sides, together, strict=True):
        text = TOKENIZER.apply_chat_template(list(messages), tokenize=False)
        ids = torch.tensor([TOKENIZER(text, add_special_tokens=False)["input_ids"]])
        with torch.no_grad():
            hidden = model.model.causal(ids, output_hidden_states=True).hidden_states[-1][0, -1]
            expected = float(hidden @ model.head.weight[0])
        assert found == pytest.approx(expected, abs=1e-5)
        assert model(messages, {"success": True}) == pytest.approx(found, abs=1e-5)
    model.centre = 2.0
    assert model.score(sides) == pytest.approx(together - 2.0)


def test_of_a_long_conversation_the_end_is_read():
    model = reward_model(max_tokens=12)
    messages = PAIRS[0].conversations[0]
    longer = ({"role": "user", "content": "Well, " * 40}, *messages)
    assert model(longer, {}) == pytest.approx(model(messages, {}), abs=1e-6)
    assert reward_model()(longer, {}) != pytest.approx(reward_model()(messages, {}), abs=1e-6)


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)], ids=["full", "adapters"])
def test_training_goes_on_bit_by_bit_after_a_break(lora, tmp_path):
    if lora is not None:
        pytest.importorskip("peft", reason="peft is not installed")
    config = RewardModelConfig(learning_rate=1e-3, batch_size=6, micro_batch_size=4, warmup=3)
    whole = config.create(reward_model(lora=lora)).fit(SEEN[:20], 5)
    config.create(reward_model(lora=lora)).fit(SEEN[:20], 2).save(tmp_path / "broken.zip")
    resumed = RewardLearner.load(tmp_path / "broken.zip", reward_model(lora=lora))
    resumed.fit(SEEN[:20], 3)
    for learner, name in ((whole, "whole"), (resumed, "resumed")):
        learner.save(tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()
    assert resumed.model.centre == whole.model.centre != 0.0


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)], ids=["full", "adapters"])
def test_a_saved_model_scores_as_before(lora, tmp_path):
    if lora is not None:
        pytest.importorskip("peft", reason="peft is not installed")
    model = CONFIG.create(reward_model(lora=lora, max_tokens=20)).fit(SEEN, 2).model
    model.save(tmp_path / "reward")
    model.save(tmp_path / "reward")  # over itself
    sides = [side for one in PAIRS[::97] for side in one.conversations]
    loaded = RewardModel.load(tmp_path / "reward")
    assert np.array_equal(loaded.score(sides), model.score(sides))
    assert (loaded.max_tokens, loaded.centre) == (20, model.centre)
    assert [path.name for path in tmp_path.iterdir()] == ["reward"]


def test_calibration_by_hand():
    """Odds of three to one claimed in four pairs, right in three; and one sure and right."""
    found = calibration(np.array([math.log(3)] * 3 + [-math.log(3), 50.0]))
    assert (found.pairs, found.accuracy) == (5, 0.8)
    assert found.bins == (
        (pytest.approx(0.75), 0.75, 4), (pytest.approx(1.0), 1.0, 1),
    )  # fmt: skip
    assert found.error == pytest.approx(0.0, abs=1e-9)
    assert found.margin == pytest.approx((2 * math.log(3) + 50) / 5)
    assert found.log_loss == pytest.approx((3 * math.log(4 / 3) + math.log(4)) / 5)
    assert calibration(np.array([-50.0])).error == pytest.approx(1.0)
    assert calibration(np.array([0.0])).accuracy == 0.0  # a tie is a miss


def test_labels_that_are_wrong_at_times_give_their_odds():
    """Nine of ten prefer the kind one: the difference is log 9, not as large as can be."""
    noisy = [PAIRS[0]] * 9 + [PAIRS[0].flipped]
    config = RewardModelConfig(learning_rate=1e-3, batch_size=10)
    model = config.create(reward_model()).fit(noisy, 100).model
    assert model.differences([PAIRS[0]])[0] == pytest.approx(math.log(9), abs=0.1)


def test_odd_things_are_refused_in_one_sentence(tmp_path):
    zeros = np.zeros(2, dtype=np.float32)
    tokens = Preference(
        chosen_segments=(Segment(np.array([1, 2]), np.array([-1, 0]), zeros),),
        rejected_segments=(Segment(np.array([1, 3]), np.array([-1, 0]), zeros),),
    )
    model = reward_model()
    with pytest.raises(InvalidConfiguration, match="has tokens only"):
        CONFIG.create(model).fit([tokens], 1)
    with pytest.raises(InvalidConfiguration, match="without messages"):
        model([], {})
    with pytest.raises(InvalidConfiguration, match="no preferences to learn from"):
        CONFIG.create(model).fit([], 1)
    with pytest.raises(InvalidConfiguration, match="no held-out preferences"):
        model.calibration([])
    with pytest.raises(InvalidConfiguration, match="holds no convgym reward model 1"):
        RewardModel.load(tmp_path)
    with pytest.raises(InvalidConfiguration, match="max_tokens=0"):
        reward_model(max_tokens=0)
    with torch.no_grad():
        model.head.weight.fill_(math.nan)
    with pytest.raises(InvalidConfiguration, match="not finite"):
        model(PAIRS[0].conversations[0], {})
