"""Golden traces: everything that an environment gave for fixed seeds, as one hash each.

    python tests/test_golden.py --write      after raising -vN, never before
    python tests/test_golden.py --print      the hashes as they are now, as JSON

Half of the episodes are drawn by seed, half are named test tasks; they are driven by a noisy
oracle where there is one (else by random legal acts), in words with odd replies thrown in.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven import IDS, MODES, MODES_OF, ORACLES, domain_of, make

from convgym import ENVIRONMENTS
from convgym.engine.keys import POLICY, below, child, draw
from convgym.policies.rendered import RenderedPolicy

FOLDER = Path(__file__).parent / "golden"
EPISODES = 20
VARIANTS = {
    **{f"{o}/{a}": {"observation": o, "action": a} for o, a in MODES},
    "features/act/graded": {"observation": "features", "action": "act", "reward": "graded"},
    "features/act/milestones": {
        "observation": "features", "action": "act", "reward": "milestones", "discount": 0.9,
    },
    "message/text/held_out": {"observation": "message", "action": "text", "phrases": "held_out"},
    "dict/act/privileged": {"observation": "dict", "action": "act", "privileged": True},
    "dict/text/privileged": {"observation": "dict", "action": "text", "privileged": True},
}  # fmt: skip
PLAIN = {f"{o}/{a}": {"observation": o, "action": a} for o, a in MODES if a == "text"}
"""Of ids that take text alone and have no scripted agent."""
ODD_REPLIES = (
    "",
    "…",
    "Your order W12345 is shipped and will arrive tomorrow.",
    "I have cancelled your order.",
    '<tool_call>{"name": "get_order"}</tool_call>',
    '{"name": "list_orders", "arguments": {}} Which order is it?',
)


def opening(episode: int) -> dict[str, Any]:
    options = {"task_id": f"test-{episode}"} if episode % 2 else {}
    return {"seed": child(2026, episode), "options": options}


def scripts(environment_id: str, action: str, episodes: int) -> list[list[Any]]:
    """The actions of each episode, chosen once and sent to every kind of observation."""
    env = make(environment_id, observation="dict", action=action)
    policy: Any = None
    if environment_id in IDS:
        policy = ORACLES[environment_id](noise=0.2)
        if action == "text":
            policy = RenderedPolicy(policy, domain=domain_of(environment_id))
    chosen = []
    for episode in range(episodes):
        observation, info = env.reset(**opening(episode))
        if policy:
            policy.reset(episode)
        actions, ended = [], False
        while not ended:
            if action == "text":
                drawn = draw(episode, POLICY, len(actions), 9)
                odd = (*ODD_REPLIES, *env.action_space.utterances)
                taken = odd[below(drawn, len(odd))]
                if policy and drawn % 8:
                    taken, _ = policy.predict(observation)
            else:
                taken, _ = policy.predict(observation, action_masks=info["action_mask"])
            if action == "embedding":
                taken = env.unwrapped.candidate_vectors[taken]
            actions.append(taken)
            observation, _, terminated, truncated, info = env.step(taken)
            ended = terminated or truncated
        chosen.append(actions)
    return chosen


def pieces(value: Any) -> Iterator[bytes]:
    """A value as bytes, the same on every platform."""
    if isinstance(value, np.ndarray):
        little = value.astype(value.dtype.newbyteorder("<"))
        yield f"{little.dtype.str}{value.shape}".encode()
        yield little.tobytes()
    elif isinstance(value, dict):
        for name, item in value.items():
            yield f"{name}=".encode()
            yield from pieces(item)
    else:
        yield f"{type(value).__name__}:{value!r};".encode()


def trace(environment_id: str, keywords: dict[str, Any], actions: list[list[Any]]) -> str:
    """SHA-256 of all observations, rewards, flags and infos."""
    env = make(environment_id, **keywords)
    digest = hashlib.sha256()

    def note(*values: Any) -> None:
        for value in values:
            for piece in pieces(value):
                digest.update(piece)

    for episode, taken in enumerate(actions):
        note(*env.reset(**opening(episode)), env.unwrapped.system_prompt)
        for action in taken:
            note(*env.step(action))
    return digest.hexdigest()


def traces(environment_id: str, episodes: int = EPISODES) -> dict[str, str]:
    """All hashes of one id, by variant."""
    variants = VARIANTS if environment_id in IDS else PLAIN
    modes = dict.fromkeys(action for _, action in MODES_OF[environment_id])
    actions = {mode: scripts(environment_id, mode, episodes) for mode in modes}
    return {
        name: trace(environment_id, keywords, actions[keywords["action"]])
        for name, keywords in variants.items()
        if (keywords["observation"], keywords["action"]) in MODES_OF[environment_id]
    }


def file_of(environment_id: str) -> Path:
    """`ConvGym/CustomerService-v0` → `golden/CustomerService-v0.json`."""
    return FOLDER / f"{environment_id.rpartition('/')[2]}.json"


@pytest.mark.parametrize("environment_id", ENVIRONMENTS)
def test_nothing_that_can_move_a_score_has_changed(environment_id):
    path = file_of(environment_id)
    assert path.exists(), f"{path.name} is missing: python tests/test_golden.py --write"
    stored = json.loads(path.read_text(encoding="utf-8"))
    now = traces(environment_id)
    changed = sorted(name for name in {*stored, *now} if stored.get(name) != now.get(name))
    assert not changed, (
        f"{environment_id} no longer gives what it gave: {', '.join(changed)}. Whatever moves a "
        "trace can move a score: raise -vN, say in the changelog which scores move and which way, "
        "then run python tests/test_golden.py --write"
    )


def main() -> None:
    """Write or print the hashes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    arguments = parser.parse_args()
    if arguments.write == arguments.print:
        parser.error("give either --write or --print")
    if arguments.write and arguments.episodes != EPISODES:
        parser.error(f"--write takes {EPISODES} episodes")
    found = {name: traces(name, arguments.episodes) for name in ENVIRONMENTS}
    if arguments.print:
        json.dump(found, sys.stdout, indent=1)
        return
    FOLDER.mkdir(exist_ok=True)
    for environment_id, hashes in found.items():
        text = json.dumps(hashes, indent=1) + "\n"
        file_of(environment_id).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
