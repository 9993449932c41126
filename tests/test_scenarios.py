"""Scenarios: records of a task and its customer that any environment of the domain replays."""


import json

import numpy as np
import pytest
from driven import every_id, hidden, make

from convgym.domains.customer_service import rules
from convgym.domains.customer_service.tasks import table
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.errors import InvalidConfiguration
from convgym.randomization import (
    Scenario,
    ScenarioGenerator,
)
from convgym.users.persona import BUILT_IN, TRAITS, persona_of

TOPICS = rules.WORKFLOWS


# -- scenarios -------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
def test_a_scenario_is_a_record(split):
    generator = ScenarioGenerator(split=split, seed=2)
    rows = table(split)
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
        assert record["topic"] == TOPICS[rows.topic[number]]
        assert record["context"].endswith(".") and record["expected_resolution"].endswith(".")
        assert len(record["user_messages"]) == 1 and record["user_messages"][0]
        assert 0.0 <= record["difficulty"] <= 1.0
        assert record["metadata"]["domain"] == "customer-service"
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
        assert all(generator.generate(topic=topic).topic == topic for _ in range(10))
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


@every_id
@pytest.mark.parametrize("split", SPLITS)
def test_an_environment_replays_a_scenario(environment_id, split):
    env = make(environment_id, privileged=True)
    generator = ScenarioGenerator(split=split, seed=11)
    for number in range(40):
        scenario = generator.generate(difficulty=(None, 0.0, 0.8)[number % 3])
        observation, info = env.reset(seed=number, options=scenario.options())
        assert observation == scenario.user_messages[0]
        assert info["task_id"] == scenario.id.partition("/")[0]
        assert hidden(info)["workflow"] == scenario.topic
        levels = dict(zip(TRAITS, persona_of(scenario.persona).levels, strict=True))
        assert hidden(info)["persona"] == levels
        assert hidden(info)["order"] in scenario.context


def test_a_scenario_is_replayed_from_its_record():
    scenario = ScenarioGenerator(seed=1).generate()
    read = Scenario(**json.loads(json.dumps(scenario.to_dict())))
    assert read.options() == scenario.options()
