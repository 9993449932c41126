"""Scenarios: records of a task and its customer that any environment of the domain replays."""


import json

import numpy as np
import pytest
from driven import IDS, desk_of, domain_of, every_split, hidden, make

from convgym.domains.catalogue import domain_called
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.errors import InvalidConfiguration
from convgym.randomization import (
    Scenario,
    ScenarioGenerator,
)
from convgym.users.persona import BUILT_IN, TRAITS, persona_of

SHOP = domain_called("customer-service")
TOPICS = SHOP.topics


# -- scenarios -------------------------------------------------------------------------------------


@every_split
def test_a_scenario_is_a_record(environment_id, split):
    generator = ScenarioGenerator(domain=domain_of(environment_id), split=split, seed=2)
    desk = desk_of(environment_id)
    rows = desk.table(split)
    for _ in range(30):
        scenario = generator.generate()
        record = json.loads(json.dumps(scenario.to_dict()))
        assert set(record) == {
            "id",
            "topic",
            "context",
            "user_messages",
            "expected_resolution",
            "difficulty",
            "persona",
            "metadata",
        }
        task_id, _, seed = record["id"].partition("/")
        number = int(task_id.removeprefix(f"{split}-"))
        assert int(seed) >= 0
        assert record["topic"] == desk.topics[rows.topic[number]]
        assert record["context"].endswith(".") and record["expected_resolution"].endswith(".")
        assert len(record["user_messages"]) == 1 and record["user_messages"][0]
        assert 0.0 <= record["difficulty"] <= 1.0
        assert record["metadata"]["domain"] == desk.domain
        assert (record["metadata"]["split"], record["metadata"]["tasks"]) == (split, SPLITS[split])
        assert persona_of(record["persona"]).to_dict() == record["persona"]


def test_scenarios_repeat_from_a_seed():
    def some(seed):
        generator = ScenarioGenerator(seed=seed)
        return [generator.generate().to_dict() for _ in range(10)]

    assert some(1) == some(1)
    assert not {s["id"] for s in some(1)} & {s["id"] for s in some(2)}
    assert len({s["id"] for s in some(1)}) == 10


def test_what_is_asked_for_is_what_comes():
    generator = ScenarioGenerator()
    for topic in TOPICS:
        held_out = SHOP.declaration.workflow[topic].held_out
        generator = ScenarioGenerator(split="test_primitive" if held_out else "train")
        assert all(generator.generate(topic=topic).topic == topic for _ in range(10))
    generator = ScenarioGenerator()
    means, patience = [], []
    for difficulty in (0.0, 0.5, 1.0):
        found = [generator.generate(difficulty=difficulty, key=child(8, k)) for k in range(150)]
        means.append(np.mean([scenario.difficulty for scenario in found]))
        patience.append(np.mean([scenario.persona["patience"] for scenario in found]))
    assert means == sorted(means) and means[-1] > means[0]
    assert patience == sorted(patience, reverse=True)
    critic = generator.generate(persona="skeptical_critic")
    assert critic.persona == BUILT_IN["skeptical_critic"].to_dict()
    recorded = generator.record("test-17", "patient_expert", 5)
    assert recorded.id == "test-17/5" and recorded.metadata["split"] == "test"
    assert recorded == ScenarioGenerator(split="test").record("test-17", "patient_expert", 5)


@pytest.mark.parametrize(
    "wrong",
    [{"topic": "taxes"}, {"difficulty": 1.5}, {"difficulty": "hard"}, {"persona": "nobody"}],
    ids=str,
)
def test_what_no_scenario_has_is_refused(wrong):
    (value,) = wrong.values()
    with pytest.raises(InvalidConfiguration, match=str(value)):
        ScenarioGenerator().generate(**wrong)
    with pytest.raises(InvalidConfiguration, match="holiday"):
        ScenarioGenerator(split="holiday")


@every_split
def test_an_environment_replays_a_scenario(environment_id, split):
    """In its very words: those of `test_lexical` are the held-out ones."""
    env = make(environment_id, privileged=True)
    generator = ScenarioGenerator(domain=domain_of(environment_id), split=split, seed=11)
    for number in range(40):
        scenario = generator.generate(difficulty=(None, 0.0, 0.8)[number % 3])
        observation, info = env.reset(seed=number, options=scenario.options())
        assert observation == scenario.user_messages[0]
        assert info["task_id"] == scenario.id.partition("/")[0]
        levels = dict(zip(TRAITS, persona_of(scenario.persona).levels, strict=True))
        told = hidden(info)
        assert told["persona"] == levels
        for request in told.get("requests", ()):
            kind = desk_of(environment_id).declaration.workflow[request["workflow"]].kind
            assert request["record"] in scenario.context or not kind
            assert request["workflow"] in scenario.context


@pytest.mark.parametrize("environment_id", IDS)
def test_a_context_names_the_customer_and_every_request(environment_id):
    desk = desk_of(environment_id)
    for number in range(200):
        task = desk.task("test", number)
        context, resolution = desk.scenario(task)
        if hasattr(task, "requests"):
            assert resolution.count("The agent") == len(task.requests)
            assert context.count("asks for") == len(task.requests)
        assert context[0].isupper() and context.endswith(".")


def test_a_scenario_is_replayed_from_its_record():
    scenario = ScenarioGenerator(seed=1).generate()
    read = Scenario(**json.loads(json.dumps(scenario.to_dict())))
    assert read.options() == scenario.options()
