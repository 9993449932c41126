"""Pairs of runs: the table by hand, what is finished is not done again, what is imitated."""

import importlib.util
import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from convgym.errors import InvalidConfiguration
from trainers.ablations import ablated, table
from trainers.result_lines import ResultLines

ROOT = Path(__file__).parents[1]


def script(name):
    """A script, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_interval_is_students_of_the_paired_differences():
    rows = [{"part": "it", "without": 0.2, "with": 0.2 + gain} for gain in (0.1, 0.2, 0.3)]
    half = 4.302653 * 0.1 / math.sqrt(3)  # 97.5 % of Student's t, two degrees of freedom
    low, high = f"{0.2 - half:+.2f}", f"{0.2 + half:+.2f}"
    assert table(rows, ["it", "other"]).splitlines()[2:] == [
        f"| it | 0.20 | 0.40 | +0.20 [{low}, {high}] | 3 |"
    ]
    assert "[-inf, +inf] | 1 |" in table(rows[:1], ["it"])


def test_a_finished_pair_is_not_done_again(tmp_path):
    path, done = tmp_path / "results.jsonl", []

    def part(seed):
        done.append(seed)
        if len(done) == 3:
            raise KeyboardInterrupt
        return 0.0, 1.0

    with pytest.raises(KeyboardInterrupt):
        ablated({"it": part}, 3, path)
    assert [row["seed"] for row in ResultLines(path).rows] == [0, 1]
    assert ablated({"it": part}, 3, path).endswith("| 3 |")
    assert done == [0, 1, 2, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


def test_a_file_of_something_else_is_refused_and_kept(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text("part,seed\n")
    with pytest.raises(InvalidConfiguration, match="holds no results"):
        ResultLines(path)
    assert path.read_text() == "part,seed\n"
    path.write_text(json.dumps({"part": "it", "seed": 1}) + "\n")
    assert ResultLines(path).has(seed=1) and not ResultLines(path).has(part="it", seed=2)


@pytest.fixture(scope="module")
def desk():
    pytest.importorskip("transformers", reason="needs the extra llm")
    return script("desk_ablations")


def answered(said, requests):
    """The next reply to each request."""
    return [said() for _ in requests]


def test_each_side_imitates_the_same_replies_to_what_it_shows(desk):
    """What is learnt from is what an episode of that side would show, page for page."""
    from trainers.llm.embedded import embedded_folder
    from trainers.llm.language_model import LanguageModel
    from trainers.llm.sampler import CallableSampler

    model = LanguageModel.load(embedded_folder())
    rollout = next(
        r for r in desk.engine(model).collect(range(8), 1, rng_seed=0) if len(r.rewards) > 3
    )
    replies = [m["content"] for m in rollout.messages if m["role"] == "assistant"]
    for side in (desk.newest, desk.remembering, desk.planned, desk.window, desk.summarised):
        rows = desk.rows_of(rollout, side, model.tokenizer)
        assert len(rows) == len(replies)
        engine = desk.seen(model, side)
        said = partial(next, iter(replies))
        engine.sampler = CallableSampler(partial(answered, said), engine.chat_format)
        played = engine.collect([rollout.seed], 1, rng_seed=0)[0]
        assert len(played.segments) == len(rows)
        for segment, row in zip(played.segments, rows, strict=True):
            assert np.array_equal(segment.tokens[: len(row.input_ids)], row.input_ids)


def test_users_of_a_transfer_table_can_all_be_talked_with():
    pytest.importorskip("transformers", reason="needs the extra llm")
    import gymnasium as gym

    transfer = script("text_transfer")
    names = []
    for name, keywords in transfer.users(None):
        env = gym.make(transfer.ENVIRONMENT, disable_env_checker=True, **keywords)
        observation, info = env.reset(seed=0)
        assert observation["message"] and info["split"] == keywords["split"]
        names.append(name)
    assert len(names) == len(set(names)) == 10
