"""Turns of conversations as batches; adaptation from simulated to real customers' words."""

import subprocess
import sys

import numpy as np
import pytest
from recorded import ROOT, corpus, talk

from convgym.data.logs import read_log
from convgym.errors import DatasetError
from convgym.language.encoders import HashedEncoder
from trainers.transfer.log_batches import EncodedTurns, domain_batches
from trainers.transfer.mixing import MixedSampler

TALKS = [
    talk("one", "Hello", "a:Hi, how can I help?", "My parcel is late.", "", "a:Sorry!", "Bye"),
    talk("two", "a:Good morning", "I want a refund", "a:Why?", "Bye"),
]
SAID = ["Hello", "My parcel is late.", "Bye", "I want a refund", "Bye"]


def farewell(message):
    """1 for a farewell, 0 for anything else; a greeting has no class."""
    return None if message.content == "Hello" else int(message.content == "Bye")


def test_rows_are_the_turns_of_one_role_that_say_anything():
    encoder = HashedEncoder(64)
    found = EncodedTurns(TALKS, encoder)
    assert np.array_equal(found.all.vectors, encoder.encode(SAID)) and found.all.labels is None
    agent = EncodedTurns(TALKS, encoder, role="assistant")
    assert len(agent) == 4 and len(found) == 5


def test_labels_stand_beside_their_turns_and_none_leaves_a_turn_out():
    encoder = HashedEncoder(64)
    found = EncodedTurns(TALKS, encoder, label=farewell)
    assert np.array_equal(found.all.vectors, encoder.encode(SAID[1:]))
    assert found.all.labels.tolist() == [0, 1, 0, 1]


def test_samples_are_rows_with_their_labels_drawn_by_the_seed():
    first, again, other = (EncodedTurns(TALKS, label=farewell, seed=seed) for seed in (1, 1, 2))
    one, same, another = (turns.sample(200) for turns in (first, again, other))
    assert np.array_equal(one.vectors, same.vectors) and np.array_equal(one.labels, same.labels)
    assert not np.array_equal(one.vectors, another.vectors)
    pairs = {(row.tobytes(), label) for row, label in zip(*first.all, strict=True)}
    assert {(row.tobytes(), label) for row, label in zip(*one, strict=True)} == pairs


def test_no_turns_are_refused():
    for wrong in ({"role": "tool"}, {"label": lambda message: None}):
        with pytest.raises(DatasetError, match="no turn"):
            EncodedTurns(TALKS, **wrong)


def test_encoded_turns_are_a_source_for_mixing():
    sampler = MixedSampler(EncodedTurns(TALKS), EncodedTurns(TALKS[:1]), lambda step: 0.75)
    batch = sampler.sample(8, 0)
    assert len(batch.simulated.vectors) == 6 and len(batch.real.vectors) == 2


def test_domain_batches_hold_both_sides_and_the_labels_of_one():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    source, target = EncodedTurns(TALKS, label=farewell), EncodedTurns(TALKS[1:])
    batches = list(domain_batches(source, target, batch_size=3, steps=2))
    expected = EncodedTurns(TALKS, label=farewell).sample(3)
    assert len(batches) == 2
    assert batches[0].source.numpy().tolist() == expected.vectors.tolist()
    assert batches[0].labels.tolist() == expected.labels.tolist()
    assert batches[0].labels.dtype == torch.int64
    assert batches[0].target.shape == (3, 256) and not torch.equal(*(b.target for b in batches))


def test_a_source_without_labels_is_refused():
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(DatasetError, match="no labels"):
        next(domain_batches(EncodedTurns(TALKS), EncodedTurns(TALKS), 2, 1))


def test_all_but_adaptation_works_without_torch_and_that_names_its_cure():
    code = """if True:
        import sys
        sys.modules["torch"] = None
        from convgym.conversation import Conversation, Message
        from convgym.errors import MissingExtra
        from trainers.transfer import gap_monitor, progressive, rank_transfer
        from trainers.transfer.log_batches import EncodedTurns, domain_batches
        turns = EncodedTurns([Conversation("1", (Message("user", "Hi"),))], label=lambda _: 0)
        try:
            next(domain_batches(turns, turns, 1, 1))
        except MissingExtra as error:
            print(error.package, error.extra)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == ["torch", "offline"], done.stderr


# -- simulated customers, real customers -----------------------------------------------------------

ACTS = ("greet", "thank", "bye", "affirm", "deny")
SIMULATED = {"acknowledge": "affirm", "no_more": "deny"}
REAL = {
    "openinggreeting": "greet",
    "thankyou": "thank",
    "closinggreeting": "bye",
    "confirmation": "affirm",
    "rejection": "deny",
}


def simulated_act(message):
    """Small talk by its act, business as one more class; the business of a turn goes first."""
    names = [SIMULATED.get(act[0], act[0]) for act in message.acts]
    name = next((name for name in names if name not in ACTS[:3]), names[0])
    if name.startswith(("inform", "request")):
        return len(ACTS)
    return ACTS.index(name) if name in ACTS else None


def real_act(message):
    """The same classes by MultiDoGO's intents."""
    if len(message.intents) != 1 or message.intents[0] == "outofdomain":
        return None
    act = REAL.get(message.intents[0])
    return len(ACTS) if act is None else ACTS.index(act)


@pytest.mark.slow
def test_adaptation_to_a_log_helps_to_tell_real_customers_acts_from_simulated_ones():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from torch import nn

    from convgym.simulator import ConversationSimulator, SimulatorConfig
    from trainers.transfer.domain_adaptation import DomainAdaptationModule

    train, dev = (list(read_log(corpus("multidogo", split)))[:1000] for split in ("train", "dev"))
    desks = ("CustomerService", "TechnicalSupport", "Sales")
    simulated = [
        conversation
        for desk in desks
        for conversation in ConversationSimulator(
            SimulatorConfig(env_id=f"ConvGym/{desk}-v0")
        ).generate_conversations(100, seed=0)
    ]
    encoder = HashedEncoder()
    test = EncodedTurns(dev, encoder, label=real_act).all

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 32))
            self.head = nn.Linear(32, len(ACTS) + 1)

        def features(self, inputs):
            return self.encoder(inputs)

        def predict(self, features):
            return self.head(features)

    def accuracy(weight, seed):
        source = EncodedTurns(simulated, encoder, label=simulated_act, seed=seed)
        target = EncodedTurns(train, encoder, seed=seed)  # of no labels
        torch.manual_seed(seed)
        model = Model()
        module = DomainAdaptationModule("coral", features=32, weight=weight)
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for step, batch in enumerate(domain_batches(source, target, 64, 600)):
            module.progress = step / 600
            optimiser.zero_grad()
            module.compute_adapted_loss(model, batch).backward()
            optimiser.step()
        with torch.no_grad():
            told = model.predict(model.features(torch.from_numpy(test.vectors))).argmax(1).numpy()
        return (told == test.labels).mean()

    gains = [accuracy(100.0, seed) - accuracy(0.0, seed) for seed in range(3)]
    assert np.mean(gains) > 0.01
