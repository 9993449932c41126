"""Where what a language model learnt at one desk still holds: other people, users fitted to logs.

    python scripts/text_transfer.py MODEL [MODEL ...] [--logs DATA/multidogo/train.jsonl.gz]
                                    [--domain customer-service] [--episodes 300]

Each model (a folder, or "embedded") has the same conversations of `ConvGym/OneRequest-v0`, one
line for each sort of user: those of training, those of the test, who speak in words that nobody
trained on, a sort of person that training never meets, each named persona, more difficult ones,
and users whose manners and words are fitted to the logs. Shares are of conversations, intervals
(95 %) Wilson's. A planner of the desk, which talks in the desk's own words, stands beside them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium as gym
import torch

from convgym.calibration import calibrate
from convgym.data import ConversationDataset
from convgym.evaluation.intervals import wilson
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder
from convgym.users.persona import BUILT_IN
from trainers.llm.chat_format import ChatFormat
from trainers.llm.embedded import embedded_folder
from trainers.llm.embedded.tuned import ENVIRONMENT, HELD_OUT, MAX_TURNS, SAMPLING
from trainers.llm.language_model import LanguageModel
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler


def users(user: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Sorts of users, and what an environment is made with for each."""
    yield "training's", {"split": "train"}
    yield "the test's", HELD_OUT
    yield "a sort of person unseen", {**HELD_OUT, "split": "test_persona"}
    for name in BUILT_IN:
        yield f"`{name}`", {**HELD_OUT, "persona": name}
    for difficulty in (0.5, 1.0):
        yield f"difficulty {difficulty}", {**HELD_OUT, "difficulty": difficulty}
    if user is not None:
        yield "fitted to logs", {"split": "test", "user": str(user)}


def talked(folder: str, episodes: int, **keywords: Any) -> int:
    """Successes of a language model, sampled at temperature 1."""
    model = LanguageModel.load(embedded_folder() if folder == "embedded" else folder)
    engine = RolloutEngine(
        TextEnvironment(ENVIRONMENT, system="", kwargs=keywords),
        TransformersSampler(model.causal),
        ChatFormat(model.tokenizer),
        Sampling(**SAMPLING),
        max_turns=MAX_TURNS,
    )
    found = engine.collect(range(episodes), 1, rng_seed=0)
    engine.close()
    return sum(bool(rollout.valid and rollout.success) for rollout in found)


def planned(domain: str, episodes: int, **keywords: Any) -> int:
    """Successes of the desk's planner in the same conversations, in its own words."""
    env = gym.make(ENVIRONMENT, domain=domain, disable_env_checker=True, **keywords)
    policy = RenderedPolicy(ladder(domain)["planner"](), domain=domain)
    won = 0
    for seed in range(episodes):
        observation, info = env.reset(seed=seed)
        policy.reset(seed)
        over = False
        while not over:
            reply = policy.predict(observation)[0]
            observation, _, terminated, truncated, info = env.step(reply)
            over = terminated or truncated
        won += bool(info["success"])
    return won


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL", help='a folder, or "embedded"')
    parser.add_argument("--logs", type=Path, help="conversations to fit a user to")
    parser.add_argument("--domain", default="customer-service")
    parser.add_argument("--episodes", type=int, default=300)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    names = [Path(folder).name for folder in asked.models]
    print("| users |", " | ".join((*names, "planner")), "|")
    print("|---|" + "---|" * (len(names) + 1))
    with TemporaryDirectory() as folder:
        user = None
        if asked.logs is not None:
            user = Path(folder) / "user.npz"
            calibrate(ConversationDataset.from_jsonl(asked.logs)).save(user)
        for name, keywords in users(user):
            said = {"domain": asked.domain, **keywords}
            won = [talked(model, asked.episodes, **said) for model in asked.models]
            won.append(planned(episodes=asked.episodes, **said))
            cells = []
            for number in won:
                low, high = wilson(number, asked.episodes)
                cells.append(f"{number / asked.episodes:.3f} [{low:.3f}, {high:.3f}]")
            print(f"| {name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
