"""Every recipe makes what it promises, twice the same, and its card says what is in it."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from typer.testing import CliRunner

from convgym.cli.main import app
from convgym.data.building import build_dataset, collect_recipe, read_recipe
from convgym.data.cards import card
from convgym.data.checking import check_content, check_episodes
from convgym.data.episodes import content_hash, write_dataset
from convgym.data.loading import packaged_ids
from convgym.data.local_root import local_path
from convgym.data.recipes import recipe_ids, recipe_path
from convgym.envs.autoreset import AutoresetMode
from convgym.errors import DatasetError, InvalidConfiguration

minari = pytest.importorskip("minari")
h5py = pytest.importorskip("h5py")

QUICK = "convgym/sales-text/random-v0"
WORDED = "convgym/customer-service-text/mixed-v0"


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def test_there_is_a_recipe_for_every_domain_behaviour_and_form():
    domains = ("customer-service", "technical-support", "sales")
    behaviours = ("random", "keyword", "slot-filling", "planner", "expert", "mixed")
    every = product(domains, ("", "-text"), behaviours)
    ids = {f"convgym/{domain}{form}/{behaviour}-v0" for domain, form, behaviour in every}
    assert set(recipe_ids()) == ids | set(packaged_ids())


def of_one_behaviour(dataset_id):
    """Whether it is left to the slow tests: other behaviours are collected in the same way.

    Of words the shop's mixture stands for those of the other two.
    """
    mixed = dataset_id.endswith("/mixed-v0")
    other_words = dataset_id.split("/")[1] in ("technical-support-text", "sales-text")
    return dataset_id not in packaged_ids() and (not mixed or other_words)


@pytest.mark.parametrize(
    "dataset_id",
    [
        pytest.param(name, marks=pytest.mark.slow if of_one_behaviour(name) else ())
        for name in recipe_ids()
    ],
)
def test_a_recipe_makes_what_it_promises_and_its_card_tells_it(dataset_id):
    """After a change that is meant: scripts/write_cards.py."""
    if AutoresetMode is None and dataset_id not in packaged_ids():
        pytest.skip("on gymnasium 1.0 the samples stand for all")
    recipe = read_recipe(dataset_id)
    episodes = collect_recipe(recipe)
    assert content_hash(episodes) == recipe.sha256
    page = recipe_path(dataset_id).with_suffix(".md").read_text("utf-8")
    assert page == card(recipe, episodes)


@pytest.mark.slow
@pytest.mark.parametrize("dataset_id", recipe_ids())
def test_two_builds_have_the_same_bytes(dataset_id, monkeypatch, tmp_path):
    files = []
    for number in range(2):
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / str(number)))
        dataset = build_dataset(dataset_id)
        folder = dataset.storage.data_path
        files.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
        assert content_hash(dataset) == read_recipe(dataset_id).sha256
        check_episodes(dataset)
    assert files[0] == files[1]
    code = (
        f"import minari; dataset = minari.load_dataset({dataset_id!r})\n"
        "for evaluating in (False, True):\n"
        "    env = dataset.recover_environment(eval_env=evaluating)\n"
        "    env.reset(seed=0); env.step(env.action_space.sample())\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=tmp_path)
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("dataset_id", [WORDED, "convgym/technical-support/mixed-v0"])
def test_the_content_does_not_depend_on_how_many_play_side_by_side(dataset_id):
    recipe = replace(read_recipe(dataset_id), episodes=25)
    made = [content_hash(collect_recipe(recipe, rows=rows)) for rows in (3, 25)]
    assert made[0] == made[1]


def test_worded_data_names_the_act_behind_each_reply():
    recipe = replace(read_recipe(WORDED), episodes=20)
    acting = replace(
        recipe, environment={**recipe.environment, "observation": "features", "action": "act"}
    )
    for spoken, acted in zip(collect_recipe(recipe), collect_recipe(acting), strict=True):
        acts = spoken.infos["act"].tolist()
        assert acts[0] == -1 and min(acts[1:]) >= 0
        # The first reply answers the same opening; later ones what was understood of it.
        assert acts[1] == acted.actions[0]
        assert all(isinstance(text, str) for text in (*spoken.observations, *spoken.actions))


@pytest.mark.parametrize("form", ["", "-text"])
@pytest.mark.parametrize("domain", ["customer-service", "technical-support", "sales"])
def test_played_again_in_its_own_environment_an_episode_is_the_same(domain, form):
    """A repaired bug: what tools had answered was missing in the texts."""
    recipe = replace(read_recipe(f"convgym/{domain}{form}/mixed-v0"), episodes=40)
    env, results = recipe.make(), 0
    for episode in collect_recipe(recipe):
        observation, info = env.reset(seed=episode.seed, options=episode.options)
        for t, action in enumerate([*episode.actions, None]):
            assert np.array_equal(observation, episode.observations[t])
            assert info["user_acts"] == episode.infos["user_acts"][t]
            results += bool(info["tool_results"])
            if action is None:
                break
            observation, reward, terminated, truncated, info = env.step(action)
            assert reward == episode.rewards[t]
            assert info["reward_terms"] == episode.infos["reward_terms"][t + 1]
            ends = (bool(episode.terminations[t]), bool(episode.truncations[t]))
            assert (terminated, truncated) == ends
    assert results > 20


def test_an_edited_recipe_is_noticed_before_anything_is_written(monkeypatch, minari_root):
    monkeypatch.setattr("convgym.data.building.collect_recipe", lambda *_: [])
    with pytest.raises(DatasetError, match="promises"):
        build_dataset(QUICK)
    assert not minari_root.exists() or not os.listdir(minari_root)


def test_a_policy_that_there_is_not_is_named():
    recipe = replace(read_recipe(QUICK), behavior=({"policy": "genius", "weight": 1.0},))
    with pytest.raises(InvalidConfiguration, match="called 'genius'; there are random"):
        collect_recipe(recipe)


# Checking


def broken(change):
    """A dataset of one's own, whose file was edited behind Minari's back."""
    recipe = replace(read_recipe(QUICK), episodes=3)
    dataset = write_dataset(
        "own/tried-v0", recipe.make(), collect_recipe(recipe),
        description="Three.", ref_min_score=0.0, ref_max_score=1.0, algorithm_name="random",
    )  # fmt: skip
    with h5py.File(dataset.storage.data_path / "main_data.hdf5", "r+") as file:
        change(file["episode_1"])


def replaced(group, name, values):
    del group[name]
    group[name] = values


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda e: replaced(e, "rewards", e["rewards"][:-1]), "episode 1 .* has .* for"),
        (lambda e: replaced(e, "rewards", e["rewards"][:] + float("inf")), "not finite"),
        (lambda e: replaced(e, "actions", e["actions"][:-1]), "has .* actions for"),
        (lambda e: replaced(e, "infos/propensity", [1.0]), "infos of 'propensity'"),
        (lambda e: replaced(e, "truncations", [True] * len(e["rewards"])), "goes on after its end"),
        (lambda e: replaced(e, "rewards", []), "has no turns"),
    ],
)
def test_episodes_that_do_not_fit_together_are_named(change, reason):
    broken(change)
    with pytest.raises(DatasetError, match=reason):
        check_content("own/tried-v0", local_path("own/tried-v0") / "data")


# The command line


def said(*arguments, code=0):
    done = CliRunner().invoke(app, ["data", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_the_commands_build_list_check_publish_and_download(tmp_path, minari_root):
    assert "400 conversations" in said("build", QUICK)
    assert "exists already" in said("build", QUICK, code=2)
    said("build", QUICK, "--overwrite")
    listed = dict(line.split(maxsplit=1) for line in said("list").splitlines())
    assert set(listed) == set(recipe_ids())
    assert listed[QUICK] == "local, recipe" and listed[packaged_ids()[0]] == "packaged, recipe"
    assert "as its recipe promises" in said("check")
    shelf = f"file://{tmp_path / 'shelf'}"
    assert "is published" in said("publish", QUICK, "--to", shelf)
    shutil.rmtree(minari_root)
    assert f"{QUICK}: 400 conversations" in said("download", QUICK, "--from", shelf)
    assert "local, recipe, remote" in said("list", "--from", shelf)
    with h5py.File(local_path(QUICK) / "data/main_data.hdf5", "r+") as file:
        file["episode_0/actions"][0] = "Something else."
    assert "FAULT" in said("check", QUICK, code=1)
    assert "name the datasets" in said("build", code=2)
    assert "there is no recipe" in said("build", "convgym/nothing-v0", code=2)
    assert "say where to download from" in said("download", QUICK, code=2)
