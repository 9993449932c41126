"""For who trains language models: reinforcement learning over whole conversations, on a CPU.

    python scripts/tutorials/llm_engineer.py [--smallest] [--user user.npz] [--out engineer]

    1 the model       half a million weights, in the package; a conversation as tokens and as words
    2 before          success on held-out people, with its interval
    3 GRPO            groups of conversations of one task; a run that goes on after a kill
    4 after           the same held-out people
    5 sim to real     customers who are not those of training; a fitted user, if one is given
    6 keep and serve  one file that the command line evaluates, and serves to OpenAI's clients

Read it from top to bottom. Nothing is downloaded. Another model is a folder or a name of
transformers in the one line that loads it; then `max_tokens`, `max_context` and the learning rate
are no longer those of a tiny one. `--user` is what `convgym calibrate` or the lesson
`team_with_logs.py` wrote. Needs `convgym[llm]`. As it stands it prints, of 300 conversations each
(158 CPU-seconds, 87 of them GRPO):

    held-out words and people, before     .213 [.171, .263]
    the same, after 40 iterations         .867 [.824, .901]
    words and people of training          .840 [.794, .877]
    held out, difficulty .6               .693 [.639, .743]
    held out, frustrated_novice           .623 [.567, .676]
    held out, team_with_logs.py's user    .843 [.798, .880]

That user was fitted to logs of this very simulator, so that it ought to cost nothing; yours will.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import convgym  # noqa: F401  registers the ids
from convgym.errors import ConvGymError
from convgym.evaluation.intervals import standard_error, wilson

ENVIRONMENT = "ConvGym/OneRequest-v0"
"""Somebody wants to know where an order is: one request, and names like `order:1` for what would
have to be copied letter by letter. It is customer service in all else: its customers, its words,
its tools, its rules."""
HELD_OUT = {"split": "test", "phrases": "held_out"}
"""Other people, who say things in words that nobody has trained on."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is done; the smallest is for a test, and learns nothing to speak of."""

    iterations: int = 40
    """Of 64 conversations each."""
    group_size: int = 8
    """Conversations of one task with one customer."""
    seeds: int = 8
    """Tasks of an iteration."""
    episodes: int = 300
    """Of an evaluation."""


SMALLEST = Size(iterations=2, group_size=2, seeds=1, episodes=4)


class Lesson:
    """What one reading carries from part to part."""

    def __init__(self, size: Size, out: Path, user: Path | None) -> None:
        from trainers.llm.embedded import embedded_folder
        from trainers.llm.language_model import LanguageModel
        from trainers.llm.language_policy import quietly

        self.size, self.out, self.user = size, out, user
        # 32 bits to learn in: half precision, as it is stored, would swallow small steps.
        with quietly():
            self.model = LanguageModel.load(embedded_folder(), dtype="float32")

    # -- conversations -----------------------------------------------------------------------------

    def engine(self, **changes: Any) -> Any:
        """Many conversations of the model at once, in the environment with these keywords.

        What the model has sampled is never encoded again: tokens in, tokens out. A text that is
        decoded and encoded once more may come back as other tokens, and then the probabilities
        that the learner computes are of something that was never said.
        """
        from trainers.llm.chat_format import ChatFormat
        from trainers.llm.embedded.tuned import MAX_TURNS, SAMPLING
        from trainers.llm.rollout_engine import RolloutEngine
        from trainers.llm.sampling import Sampling
        from trainers.llm.text_environment import TextEnvironment
        from trainers.llm.transformers_sampler import TransformersSampler

        return RolloutEngine(
            # No system message: the embedded model has learnt the rules, and reads 512 tokens.
            TextEnvironment(ENVIRONMENT, system="", kwargs=changes),
            TransformersSampler(self.model.causal),
            ChatFormat(self.model.tokenizer),
            Sampling(**SAMPLING),
            max_turns=MAX_TURNS,
        )

    def the_model(self) -> None:
        """1. One conversation, as people and as the loss see it."""
        weights = sum(p.numel() for p in self.model.causal.parameters())
        print(f"\n== 1 a model of {weights:,} weights")
        (talk,) = self.engine().collect([7], 1, rng_seed=0)
        for message in talk.messages[:8]:
            print(f"  {message['role']:>9}: {message['content'][:88]}")
        # The mask is 1 on what the model has sampled. Tool results and the customer's words are
        # read, never learnt: otherwise the agent would learn to talk like its customers.
        segment = talk.segments[0]
        print(f"  {len(segment.tokens)} tokens, {segment.loss_mask.sum()} of them sampled; "
              f"reward {talk.return_:.2f}, success {talk.success}")  # fmt: skip

    def measured(self, what: str, **changes: Any) -> list[bool]:
        """Success on held-out people, Wilson's interval beside it; sampled as in training."""
        played = self.engine(**{**HELD_OUT, **changes}).collect(
            range(self.size.episodes), 1, rng_seed=0
        )
        # A conversation whose environment raised is no failure of the agent: it is left out, and
        # with the built-in customers there are none.
        won = [rollout.success for rollout in played if rollout.valid]
        low, high = wilson(sum(won), len(won))
        print(f"  {what:<34} {np.mean(won):.3f} [{low:.3f}, {high:.3f}]  n={len(won)}", flush=True)
        return won

    # -- learning ----------------------------------------------------------------------------------

    def learn(self) -> None:
        """3. GRPO: the advantage of a conversation is what it earned above its own group.

        All of a group are the same task and customer, so nothing has to know how hard that was: no
        critic. Two conversations that earned the same tell nothing; a graded reward lets most
        groups differ. Learning rate and schedule are those that suit the tiny model.
        """
        from trainers.llm.embedded.tuned import MAX_TURNS, SAMPLING, TUNED
        from trainers.llm.policy_config import PolicyOptimizerConfig
        from trainers.llm.policy_optimizer import PolicyOptimizer
        from trainers.llm.sampling import Sampling
        from trainers.llm.text_environment import TextEnvironment

        size = self.size
        print(f"\n== 3 GRPO, {size.iterations} iterations of {size.seeds} × {size.group_size} "
              "conversations")  # fmt: skip
        config = PolicyOptimizerConfig.from_dict(
            {
                **TUNED,
                "objective": "grpo",  # or gspo, dapo, rloo, …: a word, nothing else changes
                "iterations": size.iterations,
                "seeds_per_iteration": size.seeds,
                "group_size": size.group_size,
                "max_turns": MAX_TURNS,
                "seed": 0,
            }
        ).changed(sampling=Sampling(**SAMPLING))
        environment = TextEnvironment(ENVIRONMENT, system="", kwargs={"reward": "graded"})
        learner = PolicyOptimizer(self.model, environment, config, [self.tell])
        # The checkpoint holds weights, optimiser, draws and rows: the same command after a kill
        # goes on, bit by bit as it would have.
        place = self.out / "run.safetensors"
        if place.is_file():
            learner.restore(place)
        began = time.process_time()
        learner.train(place)
        print(f"  {time.process_time() - began:.0f} CPU-seconds")

    def tell(self, row: Mapping[str, float]) -> None:
        """A line now and then; watch the entropy: at 0 a policy has stopped trying things.

        An iteration in which every group earned the same teaches nothing, and has none.
        """
        if row["step"] % max(1, self.size.iterations // 8) == 0:
            known = {"reward_mean": "reward", "success": "success", "entropy": "entropy"}
            told = [f"{label} {row[name]:.3f}" for name, label in known.items() if name in row]
            print(f"  {row['step']:>4.0f}  {', '.join(told)}", flush=True)

    # -- what it is worth elsewhere ----------------------------------------------------------------

    def sim_to_real(self) -> None:
        """5. A simulator is never its model. How much of the gain holds when people are others?

        Words first: training's own against held-out ones, which is the first gap of all. Then
        people: harder ones, and, where there is one, a user fitted to a team's logs. What falls
        here would fall in production. Cures, in this order: train on people drawn wider
        (`randomizer={"persona_variation": 1.0}`), train on the fitted user (`user="user.npz"`),
        mix its logs in (`trainers.transfer`).
        """
        print("\n== 5 the same policy with other customers")
        own = self.measured("words of training, people of training", split="train", phrases="train")
        others = {
            "held-out words and people": {},
            "the same, difficulty 0.6": {"difficulty": 0.6},
            "persona: frustrated_novice": {"persona": "frustrated_novice"},
        }
        if self.user is not None:
            others["the fitted user"] = {"user": str(self.user)}
        for what, changes in others.items():
            won = self.measured(what, **changes)
            # Two samples of different people: their errors add up as squares.
            gained = float(np.mean(won) - np.mean(own))
            half = 1.96 * float(np.hypot(standard_error(own), standard_error(won)))
            print(f"    {gained:+.3f} ± {half:.3f} against training's own")

    def keep_and_serve(self) -> None:
        """6. One file: weights, tokenizer and how replies are sampled."""
        from trainers.llm.embedded.tuned import SAMPLING
        from trainers.llm.language_policy import LanguagePolicy
        from trainers.llm.sampling import Sampling

        place = self.out / "policy.zip"
        LanguagePolicy(self.model, Sampling(**SAMPLING), system="").save(place)
        policy = LanguagePolicy.load(place)
        policy.reset(0)
        reply, _ = policy.predict({"message": "Hello, where is my order?", "tool_results": ""})
        print(f"\n== 6 {place}, {place.stat().st_size / 1e6:.1f} MB; it says: {reply!r}")
        print(f"""
    convgym evaluate --policy {place} --env {ENVIRONMENT} --set phrases=held_out
    convgym serve --policy {place} --env {ENVIRONMENT} --port 8000
    curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\
         -d '{{"messages": [{{"role": "user", "content": "Where is my order?"}}]}}'""")

    def read(self) -> None:
        """From the first part to the last."""
        self.the_model()
        print("\n== 2 before")
        self.measured("held-out words and people")
        self.learn()
        print("\n== 4 after")
        self.measured("held-out words and people")
        self.sim_to_real()
        self.keep_and_serve()


def main(given: list[str] | None = None) -> int:
    """The lesson; a sentence and 1 for what cannot be done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smallest", action="store_true", help="seconds, and nothing learnt")
    parser.add_argument("--iterations", type=int, default=Size.iterations)
    parser.add_argument("--user", type=Path, help="a fitted user, as convgym calibrate writes it")
    parser.add_argument("--out", type=Path, default=Path("engineer"), help="a folder")
    asked = parser.parse_args(given)
    size = SMALLEST if asked.smallest else Size(iterations=asked.iterations)
    import torch

    torch.set_num_threads(1)
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        Lesson(size, asked.out, asked.user).read()
    except ConvGymError as error:
        print(f"llm_engineer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
