"""SFT and ILQL on tokens: values worked by hand, limits, a bandit, files, transformers models."""

import copy

import numpy as np
import pytest

from convgym.data.transitions import returns_to_go
from convgym.errors import InvalidConfiguration

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from trainers.llm.conversations import Chat  # noqa: E402
from trainers.llm.ilql import ILQL, ILQLConfig  # noqa: E402
from trainers.llm.sft import SFT, SFTConfig, best_rows, next_logits  # noqa: E402
from trainers.llm.token_batches import TokenBatches, padded  # noqa: E402
from trainers.llm.token_models import CausalLM, TokenGRU  # noqa: E402
from trainers.llm.token_policy import BestOf, TokenPolicy  # noqa: E402
from trainers.llm.tokens import TokenRow, conversation_row  # noqa: E402

START, END, USER, GOOD, BAD, NEVER = range(6)
SAYS = {"end": END, "limit": 3}
OPENING = np.array([START, USER])


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def talk(words, rewards, terminated=True):
    """<start> user (word <end> user) …, without the last user token where it terminated."""
    ids, turns = [START, USER], [-1, -1]
    for number, word in enumerate(words):
        ids += [word, END, USER]
        turns += [number, number, -1]
    upto = len(ids) - terminated
    earned = np.array(rewards, dtype=float)
    return TokenRow(
        np.array(ids[:upto]), np.array(turns[:upto]), earned, returns_to_go(earned, 1.0), terminated
    )


def bandit(share=0.1, size=200):
    """One turn: the bad word earns 0 and is what is mostly said, the good one 1."""
    good = round(share * size)
    return [talk([GOOD], [1.0])] * good + [talk([BAD], [0.0])] * (size - good)


def gru(seed=0):
    return TokenGRU(6, 16, seed)


def said_good(policy, talks=400):
    replies = policy.reply([OPENING] * talks)
    return np.mean([reply.tolist() == [GOOD, END] for reply in replies])


def same_weights(first, second):
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


# -- values


def learnt_q(rows):
    """Q of the word and of the end of the second utterance, after learning from rows."""
    fast = {"learning_rate": 3e-3, "polyak": 0.1, "batch_size": 16}
    config = ILQLConfig(discount=0.5, expectile=0.5, conservatism=0.0, **fast)
    ilql = config.create(gru()).fit(rows, 400)
    row = np.array([START, USER, GOOD, END, USER, GOOD, END])
    q, _ = ilql.values([row[:5], row[:6]])
    return [float(q[0, GOOD]), float(q[1, END])]


def test_values_are_those_of_the_policy_in_the_data_at_expectile_one_half():
    """1 to 4 turns, each length alike, 1 a turn, γ ½: V4 = 1, V3 = 1 + ½·½·V4, V2 = 1 + ½·⅔·V3."""
    rows = [talk([GOOD] * n, [1.0] * n) for n in (1, 2, 3, 4)]
    v3 = 1 + 0.5 * 0.5
    assert learnt_q(rows) == pytest.approx([1 + 0.5 * (2 / 3) * v3] * 2, abs=0.15)


def test_a_cut_off_conversation_is_worth_what_would_have_followed():
    """1 a turn for ever, γ ½: 2; where the cut counted as an end it would be 1.4, as above."""
    rows = [talk([GOOD] * n, [1.0] * n, terminated=False) for n in (1, 2, 3, 4)]
    assert learnt_q(rows) == pytest.approx([2.0, 2.0], abs=0.15)


def test_a_higher_expectile_trusts_the_better_words_more():
    values = []
    for expectile in (0.5, 0.9):
        config = ILQLConfig(expectile=expectile, learning_rate=3e-3, polyak=0.1, batch_size=32)
        _, v = config.create(gru()).fit(bandit(0.3), 300).values([OPENING])
        values.append(float(v[0]))
    assert values[0] == pytest.approx(0.3, abs=0.1)  # the mean of the data
    assert values[1] == pytest.approx(0.9 * 0.3 / (0.9 * 0.3 + 0.1 * 0.7), abs=0.1)


def test_only_the_value_network_gets_gradients():
    ilql = ILQLConfig().create(gru())
    sum(ilql.losses(TokenBatches(bandit()).batch([0, 1, 199])).values()).backward()
    assert all(weights.grad is None for weights in ilql.target.parameters())
    assert all(weights.grad is None for weights in ilql.model.parameters())
    heads = [*ilql.value.q.parameters(), *ilql.value.v.parameters()]
    assert all(weights.grad is not None for weights in heads)


def test_a_step_without_a_target_teaches_no_value():
    """A reward after which nothing is known must not count as the last one."""
    cut = talk([GOOD], [50.0], terminated=False)
    unknown = TokenRow(cut.input_ids[:-1], cut.turns[:-1], cut.rewards, cut.returns, False)
    ilql = ILQLConfig().create(gru())
    batch = TokenBatches([unknown, talk([GOOD], [50.0])], 0.9)
    assert float(ilql.losses(batch.batch([0]))["td"].detach()) < 1.0
    assert float(ilql.losses(batch.batch([1]))["td"].detach()) > 1000.0


def test_the_target_follows_slowly_and_a_polyak_of_one_copies():
    for polyak in (0.25, 1.0):
        ilql = ILQLConfig(polyak=polyak).create(gru())
        before = copy.deepcopy(ilql.target)
        ilql.fit(bandit(), 1)
        for old, slow, fast in zip(
            before.parameters(), ilql.target.parameters(), ilql.value.parameters(), strict=True
        ):
            assert torch.allclose(slow, (1 - polyak) * old + polyak * fast, atol=1e-6)


# -- policies


def test_beta_zero_is_the_sft_model():
    model = SFTConfig().create(gru()).fit(bandit(), 20).model
    ilql = ILQLConfig().create(model).fit(bandit(), 20)
    plain = next_logits(model, [OPENING]).log_softmax(-1)
    assert torch.equal(ilql.scores([OPENING], beta=0.0), plain)
    assert not torch.equal(ilql.scores([OPENING], beta=1.0), plain)


def test_the_sft_model_stays_as_it_is():
    model = gru()
    before = copy.deepcopy(model)
    ILQLConfig().create(model).fit(bandit(), 3)
    assert same_weights(model, before)


def test_sft_says_what_the_data_say_and_ilql_says_what_pays():
    rows = bandit(0.1)
    sft = SFTConfig(learning_rate=5e-3).create(gru()).fit(rows, 150)
    ilql = ILQLConfig(learning_rate=3e-3).create(sft.model).fit(rows, 200)
    assert said_good(sft.policy(**SAYS)) == pytest.approx(0.1, abs=0.06)
    assert said_good(ilql.policy(**SAYS)) > 0.95
    assert said_good(ilql.best_of(**SAYS, candidates=40)) > 0.95
    assert float(ilql.scores([OPENING]).softmax(-1)[0, NEVER]) < 0.02  # nobody ever said it


def test_the_best_share_alone_is_imitated_on_request():
    rows = bandit(0.1)
    sft = SFTConfig(learning_rate=5e-3, top_share=0.1).create(gru()).fit(rows, 150)
    assert said_good(sft.policy(**SAYS)) > 0.95


def test_the_best_rows_are_those_of_the_highest_return_in_their_order():
    rows = [talk([GOOD], [reward]) for reward in (0.0, 3.0, 1.0, 2.0)]
    assert best_rows(rows, 0.5) == [rows[1], rows[3]]
    assert best_rows(rows, 0.01) == [rows[1]]
    assert best_rows(rows, 1.0) == rows


def test_a_reply_ends_with_the_end_or_at_the_limit():
    def scores(said):
        ends = torch.tensor([len(row) == 2 for row in said])
        return torch.stack([~ends, ends], dim=1).float() * 1e3

    policy = TokenPolicy(scores, end=1, limit=2)
    first, second = policy.reply([np.array([0, 0]), np.array([0, 0, 0])])
    assert (first.tolist(), second.tolist()) == ([1], [0, 0])


def test_the_same_seed_says_the_same():
    model = gru()
    sft = SFTConfig().create(model)
    first, second, other = (
        [reply.tolist() for reply in sft.policy(**SAYS, seed=seed).reply([OPENING] * 20)]
        for seed in (1, 1, 2)
    )
    assert first == second != other


def test_the_best_of_several_is_the_most_valuable_one():
    policy = TokenPolicy(lambda said: torch.zeros(len(said), 50), end=0, limit=1, seed=3)
    copy_of = TokenPolicy(policy.scores, end=0, limit=1, seed=3)
    drawn = np.array(copy_of.reply([OPENING] * 12)).reshape(3, 4)
    best = BestOf(policy, lambda said, replies: np.array(replies)[:, 0].astype(float), candidates=4)
    assert np.array_equal(np.array(best.reply([OPENING] * 3))[:, 0], drawn.max(axis=1))


def test_a_reply_is_worth_the_value_of_its_last_token():
    ilql = ILQLConfig().create(gru())
    q, _ = ilql.values([np.array([START, USER, GOOD])])
    found = ilql.reply_values([OPENING, OPENING], [np.array([GOOD, END]), np.array([GOOD, BAD])])
    assert found == pytest.approx([float(q[0, END]), float(q[0, BAD])], abs=1e-6)


def test_padding_changes_no_score():
    ilql = ILQLConfig().create(gru())
    long = np.array([START, USER, BAD, END, USER])
    assert torch.allclose(ilql.scores([OPENING, long])[:1], ilql.scores([OPENING]), atol=1e-6)


# -- files


@pytest.mark.parametrize("config", [SFTConfig(batch_size=8), ILQLConfig(batch_size=8)])
def test_training_goes_on_bit_by_bit_after_a_break(config, tmp_path):
    rows = [*bandit(), talk([GOOD, BAD], [0.0, 1.0], terminated=False)]
    whole = config.create(gru()).fit(rows, 7)
    config.create(gru()).fit(rows, 4).save(tmp_path / "broken.zip")
    resumed = type(whole).load(tmp_path / "broken.zip", gru(seed=9)).fit(rows, 3)
    assert (resumed.config, resumed.step) == (whole.config, whole.step)
    for learner, name in ((whole, "whole"), (resumed, "resumed")):
        learner.save(tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()
    untrained = config.create(gru())
    assert not same_weights(getattr(whole, "value", whole.model),
                            getattr(untrained, "value", untrained.model))  # fmt: skip


def test_a_loaded_learner_scores_as_the_saved_one(tmp_path):
    ilql = ILQLConfig(beta=3.0).create(gru()).fit(bandit(), 2)
    ilql.save(tmp_path / "ilql.zip")
    loaded = ILQL.load(tmp_path / "ilql.zip", gru(seed=5))
    assert torch.equal(loaded.scores([OPENING]), ilql.scores([OPENING]))
    assert [path.name for path in tmp_path.iterdir()] == ["ilql.zip"]


def test_another_file_is_refused_in_one_sentence(tmp_path):
    SFTConfig().create(gru()).save(tmp_path / "sft.zip")
    (tmp_path / "text").write_text("hello")
    for name in ("sft.zip", "text", "nothing"):
        with pytest.raises(InvalidConfiguration, match="holds no convgym ilql 1"):
            ILQL.load(tmp_path / name, gru())
    with pytest.raises(InvalidConfiguration, match="of the shape that was trained"):
        SFT.load(tmp_path / "sft.zip", TokenGRU(6, 17))


@pytest.mark.parametrize(
    "keywords",
    [
        {"expectile": 1.0}, {"expectile": 0.0}, {"discount": 1.1}, {"discount": -0.1},
        {"conservatism": -1.0}, {"beta": -1.0}, {"beta": float("nan")}, {"beta": float("inf")},
        {"polyak": 0.0}, {"polyak": 1.5}, {"learning_rate": 0.0}, {"batch_size": 0},
    ],
)  # fmt: skip
def test_a_bad_value_of_ilql_is_one_sentence(keywords):
    with pytest.raises(InvalidConfiguration, match=next(iter(keywords))):
        ILQLConfig(**keywords)


@pytest.mark.parametrize(
    "keywords", [{"top_share": 0.0}, {"top_share": 1.2}, {"learning_rate": -1.0}, {"batch_size": 0}]
)
def test_a_bad_value_of_sft_is_one_sentence(keywords):
    with pytest.raises(InvalidConfiguration, match=next(iter(keywords))):
        SFTConfig(**keywords)


# -- transformers


def causal_lm(tied):
    """A Llama of a few thousand weights over six tokens."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.LlamaConfig(
        vocab_size=6, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=END,
        tie_word_embeddings=tied,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CausalLM(transformers.LlamaForCausalLM(config))


def test_hidden_vectors_of_a_transformers_model_are_those_its_logits_come_from():
    model = causal_lm(tied=False).eval()
    tokens, attention = padded([OPENING, np.array([START, USER, BAD, END])])
    hidden = model.hidden(tokens, attention)
    head = model.model.get_output_embeddings()
    assert torch.allclose(head(hidden), model.logits(tokens, attention), atol=1e-5)
    alone = model.logits(*padded([OPENING]))
    assert torch.allclose(model.logits(tokens, attention)[:1, :2], alone, atol=1e-5)


@pytest.mark.parametrize("tied", [False, True])
def test_a_transformers_model_learns_what_pays_and_comes_back_from_its_file(tied, tmp_path):
    rows = bandit(0.1)
    sft = SFTConfig(learning_rate=5e-3, batch_size=32).create(causal_lm(tied)).fit(rows, 60)
    config = ILQLConfig(learning_rate=3e-3, batch_size=32)
    ilql = config.create(sft.model).fit(rows, 80)
    assert said_good(sft.policy(**SAYS)) < 0.3
    assert said_good(ilql.policy(**SAYS)) > 0.95
    ilql.save(tmp_path / "ilql.zip")
    loaded = ILQL.load(tmp_path / "ilql.zip", causal_lm(tied))
    assert torch.equal(loaded.scores([OPENING]), ilql.scores([OPENING]))
    assert same_weights(loaded.fit(rows, 2).value, ilql.fit(rows, 2).value)


def test_chats_become_values_of_a_transformers_model():
    from tiny_model import templated_model

    model, tokenizer = templated_model()
    rows = []
    for reply, reward in (("Yes", 1.0), ("No", 0.0)):
        messages = [{"role": "user", "content": "Well?"}, {"role": "assistant", "content": reply}]
        chat = Chat(tuple(messages), np.array([reward]), np.array([reward]), True)
        rows.append(conversation_row(chat, tokenizer))
    prompt, end = rows[0].input_ids[rows[0].turns < 0], tokenizer.eos_token_id
    sft = SFTConfig(learning_rate=5e-3, batch_size=8).create(CausalLM(model)).fit(rows, 60)
    ilql = ILQLConfig(learning_rate=3e-3, batch_size=8).create(sft.model).fit(rows, 60)
    replies = ilql.policy(end=end, limit=5).reply([prompt] * 20)
    assert {tokenizer.decode(reply) for reply in replies} == {"Yes<|end|>"}


# -- the toy dialogue


@pytest.mark.slow
def test_ilql_doubles_sft_and_comes_near_the_best_there_is():
    """About 60 CPU seconds: one seed of `scripts/ilql_demo.py`."""
    import importlib.util
    from pathlib import Path

    place = Path(__file__).parents[1] / "scripts/ilql_demo.py"
    spec = importlib.util.spec_from_file_location("ilql_demo", place)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    found = demo.scores("hasty-and-slow", seed=0)
    assert found["SFT"] > 0.05 and found["SFT, greedy"] < 0
    assert found["ILQL"] >= 2 * found["SFT"]
    assert found["ILQL"] >= 0.85 * demo.best_return(demo.MODEL)
