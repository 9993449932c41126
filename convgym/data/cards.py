"""The card of a dataset: what a reader must know before training on it, as Markdown.

    recipe ─┐
            ├─► card
    episodes┘

Every number on a card is computed from the recipe or from the episodes, so a card cannot say what
the data does not hold.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from convgym.data.building import Recipe

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

_WIDTH = 99

_MEANINGS = {
    "action_mask": "at t: the acts that are legal when action t is decided",
    "act": "**at t + 1: the number of the act behind reply t**; -1 at 0",
    "message": "at t: what tools answered and what the user then said",
    "policy": "index of the agent in the table above, the same in all of a conversation",
    "propensity": (
        "**at t + 1: the probability of act t under the agent that played**; NaN at 0. It is not "
        "the mixture's"
    ),
    "reward_terms": "**at t + 1: the parts of reward t**, as JSON",
    "success": "1 at the end of a conversation that reached its goal",
    "user_acts": "at t: what the user's words mean, as JSON",
    "user_log_prob": "of the simulated user's choices in the turn that observation t shows",
}


def card(recipe: Recipe, episodes: Sequence[EpisodeBuffer]) -> str:
    """The Markdown page of a dataset, from the recipe and the episodes that it made."""
    sections = [
        f"# {recipe.dataset_id}",
        _wrapped(" ".join(recipe.description.split())),
        f"    convgym data build {recipe.dataset_id}",
        _wrapped(
            f'builds it; then `minari.load_dataset("{recipe.dataset_id}")` reads it, and '
            f'`convgym.load_dataset("{recipe.dataset_id}")` does both.'
        ),
        _table(("", ""), _facts(recipe, episodes)),
        "## Behaviour",
        _wrapped(
            "One agent plays a whole conversation. `noise` is the chance of a uniformly random "
            "legal act."
        ),
        _table(
            ("index", "agent", "noise", "weight", "conversations", "success", "turns", "cut off"),
            _behavior(recipe, episodes),
        ),
        "## In the infos",
        "All have T + 1 entries.",
        _table(("key", "type", "meaning"), _infos(episodes[0])),
        "`options` and `seed` of an episode's metadata replay it.",
        "## Scores",
        _wrapped(
            f"Returns are undiscounted. `ref_min_score` {recipe.ref_min_score} is hanging up at "
            f"once, `ref_max_score` {recipe.ref_max_score} the oracle on the first 500 test tasks."
        ),
    ]
    if recipe.hard:
        listed = "\n".join(_wrapped(f"- {one}", "  ") for one in recipe.hard)
        sections += ["## Known to be hard", listed]
    return "\n\n".join(sections) + "\n"


def _facts(recipe: Recipe, episodes: Sequence[EpisodeBuffer]) -> list[tuple[str, ...]]:
    keywords = {name: value for name, value in recipe.environment.items() if name != "id"}
    named = ", ".join(f"`{name}={value!r}`".replace("'", '"') for name, value in keywords.items())
    turns, env = sum(map(len, episodes)), recipe.make()
    return [
        ("environment", f"`{recipe.environment['id']}`, {named}"),
        ("for evaluation", 'the same with `split="test"`: `recover_environment(eval_env=True)`'),
        ("conversations", f"{len(episodes):,}, on tasks drawn from the split `{recipe.split}`"),
        ("agent turns", f"{turns:,} ({turns / len(episodes):.1f} per conversation)"),
        ("observation", _space(env.observation_space)),
        ("action", _space(env.action_space)),
        ("return", _spread([float(np.sum(episode.rewards)) for episode in episodes])),
        ("content hash", f"`{recipe.sha256}`"),
        ("licence", "MIT"),
    ]


def _space(space: Any) -> str:
    if isinstance(space, spaces.Text):
        return f"text of at most {space.max_length:,} characters"
    if isinstance(space, spaces.Discrete):
        return f"one of {space.n} acts"
    return f"{int(np.prod(space.shape)):,} numbers, {space.dtype}"


def _spread(values: Sequence[float]) -> str:
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return f"mean {np.mean(values):.3f}; 5, 50, 95 %: {low:.2f}, {middle:.2f}, {high:.2f}"


def _behavior(recipe: Recipe, episodes: Sequence[EpisodeBuffer]) -> list[tuple[str, ...]]:
    played_by = [int(_info(episode, "policy")[0]) for episode in episodes]
    rows: list[tuple[str, ...]] = []
    for index, entry in enumerate(recipe.behavior):
        own = [e for e, played in zip(episodes, played_by, strict=True) if played == index]
        noise = f"{entry['noise']:.2f}" if "noise" in entry else ""
        agent = (str(index), entry["policy"], noise, f"{entry['weight']:.2f}")
        rows.append((*agent, *_outcome(own)))
    if len(rows) > 1:
        rows.append(("", "together", "", "", *_outcome(episodes)))
    return rows


def _outcome(episodes: Sequence[EpisodeBuffer]) -> tuple[str, ...]:
    won = np.mean([_info(episode, "success")[-1] for episode in episodes])
    cut = np.mean([bool(episode.truncations[-1]) for episode in episodes])
    turns = np.mean([len(episode) for episode in episodes])
    return f"{len(episodes):,}", f"{won:.3f}", f"{turns:.1f}", f"{cut:.3f}"


def _infos(episode: EpisodeBuffer) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name in sorted(episode.infos or {}):
        column = _info(episode, name)
        kind = "text"
        if isinstance(column, np.ndarray) and column.dtype.kind not in "OSU":
            kind = " ".join([str(column.dtype), *map(str, filter(None, [column.shape[1:]]))])
        rows.append((f"`{name}`", kind, _MEANINGS[name]))
    return rows


def _info(episode: EpisodeBuffer, name: str) -> Any:
    assert episode.infos is not None, "recipes keep infos"
    return episode.infos[name]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
