"""Is every transition what was recorded? Each converter beside a plain loop over the episodes.

    dataset.iterate_episodes() ─► plain loop ─► transition n: {observation, action, reward, …} ─┐
                  └─► converter ─► what it holds ─► (n, {observation, action, reward, …}) ──────┴► =

A converter yields, for each transition that it holds, its number in the plain loop and those of
its fields that it can show; `mismatches` says how many are not equal, and how many are missing. A
new converter is one function under `converter(...)`.

Knows nothing of how a converter works: it reads what a learner would read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from convgym.envs.transcript import AGENT, AGENT_LINE

if TYPE_CHECKING:
    from minari import MinariDataset

Transition = dict[str, Any]
Converter = Callable[["MinariDataset"], Iterable[tuple[int, Transition]]]

CONVERTERS: dict[str, Converter] = {}
"""By name; those that take no texts, or nothing but texts, raise DatasetError for the others."""


def converter(name: str) -> Callable[[Converter], Converter]:
    """Enter a converter under `name`."""

    def enter(function: Converter) -> Converter:
        CONVERTERS[name] = function
        return function

    return enter


class Held:
    """A dataset whose episodes are read once, for who goes through them several times."""

    def __init__(self, dataset: MinariDataset) -> None:
        self._dataset, self._episodes = dataset, list(dataset.iterate_episodes())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def iterate_episodes(self) -> Iterator[Any]:
        """The episodes, in their order."""
        return iter(self._episodes)


def mismatches(dataset: MinariDataset, convert: Converter) -> tuple[int, int]:
    """(transitions compared, how many differ or are missing).

    A transition that is shown several times, as in windows, is compared each time.
    """
    expected = list(plain_loop(dataset))
    compared, wrong, met = 0, 0, set()
    for number, came in convert(dataset):
        compared += 1
        met.add(number)
        wrong += number >= len(expected) or not all(
            _equal(expected[number][name], value) for name, value in came.items()
        )
    return compared, wrong + len(set(range(len(expected))) - met)


def plain_loop(dataset: MinariDataset, part: str = "features") -> Iterator[Transition]:
    """Every transition as Minari stores it, nothing shared with the converters.

    `seen` is all of an observation; `observation` is its `part`, if it has one of this name.
    """
    for episode in dataset.iterate_episodes():
        rewards = np.asarray(episode.rewards)
        infos = episode.infos or {}
        for t in range(len(rewards)):
            last = t == len(rewards) - 1
            ended = bool(episode.terminations[t])
            found = {
                "observation": _at(episode.observations, t, part),
                "seen": _at(episode.observations, t),
                "action": episode.actions[t],
                "reward": rewards[t],
                "next_observation": _at(episode.observations, t + 1, part),
                "terminated": ended,
                "truncated": last and not ended,
                "return_to_go": sum(rewards[t:].tolist()),
                "timestep": t,
            }
            if "action_mask" in infos:
                found["mask"] = infos["action_mask"][t]
                found["next_mask"] = infos["action_mask"][t + 1]
            if "propensity" in infos:
                found["propensity"] = infos["propensity"][t + 1]
            yield found


def _at(stored: Any, t: int, part: str | None = None) -> Any:
    if isinstance(stored, Mapping):
        if part in stored:
            return stored[part][t]
        return {name: column[t] for name, column in stored.items()}
    return stored[t]


def _equal(expected: Any, came: Any) -> bool:
    """Equal texts, or numbers as near as float32 has them."""
    if isinstance(expected, Mapping):
        return all(_equal(expected[name], value) for name, value in came.items())
    if isinstance(expected, str):
        return bool(expected == came)
    came = np.asarray(came)
    there = np.asarray(expected).astype(came.dtype)
    if there.shape != came.shape or np.array_equal(there, came):
        return there.shape == came.shape
    return bool(np.allclose(there, came, rtol=1e-5, atol=1e-6, equal_nan=True))


# -- d3rlpy ----------------------------------------------------------------------------------------


@converter("d3rlpy")
def _d3rlpy(dataset: MinariDataset) -> Iterator[tuple[int, Transition]]:
    from trainers.offline.d3rlpy_buffers import to_replay_buffer

    buffer = to_replay_buffer(dataset)
    acts = buffer.dataset_info.action_space.name == "DISCRETE"
    for number in range(buffer.transition_count):
        row = buffer.transition_picker(*buffer.buffer[number])
        shown = {
            "observation": row.observation,
            "action": row.action[0] if acts else row.action,
            "reward": row.reward[0],
            "terminated": bool(row.terminal),
            "return_to_go": row.rewards_to_go.sum(),
        }
        if not row.terminal:  # d3rlpy shows zeros for what nobody bootstraps from
            shown["next_observation"] = row.next_observation
        yield number, shown


@converter("d3rlpy, back")
def _d3rlpy_back(dataset: MinariDataset) -> Iterator[tuple[int, Transition]]:
    from trainers.offline.d3rlpy_buffers import from_replay_buffer, to_replay_buffer

    infos = next(iter(dataset.iterate_episodes())).infos or {}
    masked = "action_mask" in infos and hasattr(dataset.action_space, "n")
    buffer = to_replay_buffer(dataset, with_masks=masked)
    yield from _stored(from_replay_buffer(buffer, with_masks=masked), holds_last=False)


# -- torch -----------------------------------------------------------------------------------------


@converter("torch transitions")
def _torch(dataset: MinariDataset) -> Iterator[tuple[int, Transition]]:
    from trainers.offline.batches import Transitions

    turns = Transitions(dataset)
    batch = {name: column.numpy() for name, column in turns[np.arange(len(turns))].items()}
    yield from ((n, _fields(batch, n)) for n in range(len(turns)))


@converter("torch windows, left")
def _left(dataset: MinariDataset) -> Iterator[tuple[int, Transition]]:
    return _windows(dataset, "left")


@converter("torch windows, right")
def _right(dataset: MinariDataset) -> Iterator[tuple[int, Transition]]:
    return _windows(dataset, "right")


def _windows(dataset: MinariDataset, padding: str) -> Iterator[tuple[int, Transition]]:
    from trainers.offline.batches import Sequences, Transitions

    windows = Sequences(Transitions(dataset), context=4, padding=padding)
    for first in range(0, len(windows), 1024):
        ends = np.arange(first, min(first + 1024, len(windows)))
        batch = {name: column.numpy() for name, column in windows[ends].items()}
        for end, real in zip(ends.tolist(), batch["attention_mask"], strict=True):
            item = {name: column[end - first] for name, column in batch.items()}
            # with the stride 1, the window's number is that of its last turn
            for ago, place in enumerate(reversed(np.flatnonzero(real).tolist())):
                yield end - ago, {**_fields(item, place), "timestep": item["timesteps"][place]}


_NAMES = {
    "observations": "observation",
    "actions": "action",
    "rewards": "reward",
    "next_observations": "next_observation",
    "terminated": "terminated",
    "returns_to_go": "return_to_go",
    "masks": "mask",
    "next_masks": "next_mask",
    "propensities": "propensity",
}


def _fields(batch: Mapping[str, Any], place: int) -> Transition:
    return {ours: batch[name][place] for name, ours in _NAMES.items() if name in batch}


# -- Stable-Baselines3 -----------------------------------------------------------------------------


@converter("Stable-Baselines3")
def _sb3(dataset: MinariDataset) -> Iterator[tuple[int, Transition]]:
    from gymnasium.spaces import Box

    from trainers.online.sb3_buffers import to_sb3_buffer

    buffer, space = to_sb3_buffer(dataset, device="cpu"), dataset.action_space
    for n in range(buffer.size()):
        action = buffer.actions[n, 0]
        if isinstance(space, Box):  # stored as what is squashed to [-1, 1]
            action = space.low + (action + 1) / 2 * (space.high - space.low)
        done, timeout = buffer.dones[n, 0], buffer.timeouts[n, 0]
        yield n, {
            "observation": buffer.observations[n, 0],
            "action": action.reshape(space.shape),
            "reward": buffer.rewards[n, 0],
            "next_observation": buffer.next_observations[n, 0],
            "terminated": bool(done and not timeout),
            "truncated": bool(timeout),
        }


@converter("Stable-Baselines3, back")
def _sb3_back(dataset: MinariDataset) -> Iterator[tuple[int, Transition]]:
    from trainers.online.sb3_buffers import from_sb3_buffer, to_sb3_buffer

    yield from _stored(from_sb3_buffer(to_sb3_buffer(dataset, device="cpu")))


def _stored(buffers: Iterable[Any], holds_last: bool = True) -> Iterator[tuple[int, Transition]]:
    """What episode buffers hold, transition by transition; o_T where it was kept."""
    number = 0
    for episode in buffers:
        masks = (episode.infos or {}).get("action_mask")
        for t, reward in enumerate(episode.rewards):
            shown = {
                "observation": episode.observations[t],
                "action": episode.actions[t],
                "reward": reward,
                "terminated": bool(episode.terminations[t]),
                "truncated": bool(episode.truncations[t]),
                "timestep": t,
            }
            if holds_last or not shown["terminated"]:
                shown["next_observation"] = episode.observations[t + 1]
            if masks is not None:
                shown["mask"] = masks[t]
            yield number, shown
            number += 1


# -- language models -------------------------------------------------------------------------------


@converter("chat turns")
def _chats(dataset: MinariDataset) -> Iterator[tuple[int, Transition]]:
    from trainers.llm.conversations import read_chats

    chats, number = read_chats(dataset), 0
    first = next(iter(dataset.iterate_episodes())).observations
    pages = not isinstance(first, Mapping) and first[1].startswith(
        "\n".join([*filter(None, first[:1]), f"{AGENT}: "])
    )
    for chat in chats:
        for turn in chat.turns():
            yield number, {
                "seen": _seen(dataset, turn.prompt, pages),
                "action": turn.completion,
                "reward": turn.reward,
                "return_to_go": turn.return_to_go,
            }
            number += 1


@converter("chat tokens")
def _tokens(dataset: MinariDataset) -> Iterator[tuple[int, Transition]]:
    from trainers.llm.conversations import read_chats
    from trainers.llm.tokens import conversation_row

    number, tokenizer = 0, _CodePoints()
    for chat in read_chats(dataset):
        row = conversation_row(chat, tokenizer)
        for turn, (reward, return_) in enumerate(zip(row.rewards, row.returns, strict=True)):
            said = tokenizer.decode(row.input_ids[row.turns == turn])
            yield number, {
                "action": said.removesuffix(tokenizer.end),
                "reward": reward,
                "return_to_go": return_,
            }
            number += 1


def _seen(dataset: MinariDataset, prompt: tuple[dict[str, str], ...], pages: bool) -> Any:
    """What the agent was shown last, put together again from the messages of its prompt."""
    from gymnasium.spaces import Dict

    if isinstance(dataset.observation_space, Dict):
        return _last_parts(prompt)
    if not pages:
        return prompt[-1]["content"]
    length = AGENT_LINE if dataset.env_spec else None  # logs have no environment and whole replies
    lines = [
        f"{AGENT}: {message['content'][:length]}"
        if message["role"] == "assistant"
        else message["content"]
        for message in prompt
    ]
    return "\n".join(line for line in lines if line)


def _last_parts(prompt: tuple[dict[str, str], ...]) -> dict[str, str]:
    policy, _, tools = prompt[0]["content"].rpartition("\n\nTools:\n")
    shown = {"tool_results": "", "message": ""}
    for message in prompt[1:]:
        if message["role"] == "assistant":
            shown = {"tool_results": "", "message": ""}
        else:
            shown["tool_results" if message["role"] == "tool" else "message"] = message["content"]
    return {"policy": policy, "tools": tools, **shown}


class _CodePoints:
    """The simplest tokenizer there is: characters are tokens, messages end with U+0003."""

    end = "\x03"
    eos_token_id = ord(end)

    def apply_chat_template(
        self, messages: list[dict[str, str]], tokenize: bool, add_generation_prompt: bool
    ) -> str:
        asked = "\x02assistant\n" if add_generation_prompt else ""
        return "".join(f"\x02{m['role']}\n{m['content']}{self.end}\n" for m in messages) + asked

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [ord(character) for character in text]}

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(map(chr, ids))
