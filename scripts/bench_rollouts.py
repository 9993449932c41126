"""Samples and tokens per CPU-second of rollouts on one thread, beside transformers' `generate()`.

    python scripts/bench_rollouts.py [--rounds 5]

A Qwen2 of random weights, 96 wide and 4 layers deep (0.6 M parameters), 64 rows, groups of 8:

    single turn  a prompt of 70 tokens, 32 tokens sampled, no end token is ever possible
    many turns   5 turns: observations of 20 tokens, 12 sampled tokens; what has been read is kept,
                 or every turn's context is read anew; and generate(), called for every turn

All of a kind are measured by turns in the same process, so that a busy machine slows them alike;
ratios are medians over rounds. CPU-seconds are those of the process.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from transformers import AutoConfig, AutoModelForCausalLM

from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampling import Sampling
from trainers.llm.transformers_sampler import TransformersSampler

VOCABULARY, GROUP, ROWS = 488, 8, 64
END = VOCABULARY  # no token of the model, so that every reply has its full length
TURNS, ASKED, ANSWERED = 5, 20, 12
PROMPT, REPLY = 70, 32


class Countdown(gym.Env[str, str]):
    """As many turns as asked for; the observation is a number that seeds the tokens shown."""

    def __init__(self, turns: int) -> None:
        self.observation_space = self.action_space = spaces.Text(64)
        self.turns = turns

    def reset(self, *, seed=None, options=None):  # type: ignore[no-untyped-def]
        super().reset(seed=seed)
        self.turn = 0
        return str(seed), {}

    def step(self, action):  # type: ignore[no-untyped-def]
        self.turn += 1
        return f"{self.turn}", 0.0, self.turn == self.turns, False, {}


class Lengths:
    """In place of a chat format: messages become tokens of fixed number, so that lengths are known.

    A reply's length is its text: what is measured is not the tokenizer.
    """

    end = END

    def __init__(self, opening: int, continuation: int) -> None:
        self._sizes = opening, continuation

    def _shown(self, messages, size):  # type: ignore[no-untyped-def]
        seed = int(messages[-1]["content"])
        return np.random.default_rng(seed).integers(0, VOCABULARY, size).tolist()

    def opening(self, messages):  # type: ignore[no-untyped-def]
        """As ChatFormat."""
        return self._shown(messages, self._sizes[0])

    def continuation(self, messages):  # type: ignore[no-untyped-def]
        """As ChatFormat; the end token that was put in before stands for one of them."""
        return self._shown(messages, self._sizes[1] - 1)

    def decode(self, ids):  # type: ignore[no-untyped-def]
        """As ChatFormat."""
        return str(len(ids))


def make_model(width: int, layers: int):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "qwen2",
        vocab_size=VOCABULARY + 8,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    model = AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():  # the end token and those beyond it are as good as impossible
        hidden = torch.zeros(VOCABULARY + 8)
        hidden[VOCABULARY:] = -1e4
    model.lm_head.register_forward_hook(lambda module, given, logits: logits + hidden)
    return model


def generated(model, contexts: torch.Tensor, tokens: int) -> torch.Tensor:  # type: ignore[no-untyped-def]
    with torch.no_grad():
        return model.generate(
            contexts,
            attention_mask=torch.ones_like(contexts),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            pad_token_id=0,
        )


def single_turn(model):  # type: ignore[no-untyped-def]
    sampling = Sampling(max_tokens=REPLY, max_context=PROMPT + REPLY + 1)
    prompts = Lengths(PROMPT, 1)
    engine = RolloutEngine(lambda: Countdown(1), model, prompts, sampling, slots=ROWS)
    contexts = torch.tensor(
        [
            prompts.opening([{"content": str(seed)}])
            for seed in range(ROWS // GROUP)
            for _ in range(GROUP)
        ]
    )

    def engine_run() -> None:
        for rollout in engine.collect(range(ROWS // GROUP), GROUP, 0):
            assert rollout.sampled == REPLY

    def generate_run() -> None:
        assert generated(model, contexts, REPLY).shape == (ROWS, PROMPT + REPLY)

    return {"rollouts": engine_run, "generate": generate_run}, REPLY


def many_turns(model):  # type: ignore[no-untyped-def]
    sampling = Sampling(max_tokens=ANSWERED, max_context=TURNS * (ASKED + ANSWERED) + 2)
    form = Lengths(ASKED, ASKED)

    def engine_run(keep: bool) -> Callable[[], None]:
        sampler = TransformersSampler(model, keep=keep)
        engine = RolloutEngine(lambda: Countdown(TURNS), sampler, form, sampling, slots=ROWS)

        def run() -> None:
            for rollout in engine.collect(range(ROWS // GROUP), GROUP, 0):
                assert rollout.sampled == TURNS * ANSWERED

        return run

    def generate_run() -> None:
        contexts = torch.zeros((ROWS, 0), dtype=torch.long)
        for turn in range(TURNS):
            shown = torch.tensor(
                [
                    form._shown([{"content": str(row // GROUP + 100 * turn)}], ASKED)
                    for row in range(ROWS)
                ]
            )
            contexts = generated(model, torch.cat([contexts, shown], 1), ANSWERED)
        assert contexts.shape == (ROWS, TURNS * (ASKED + ANSWERED))

    runs = {"kept": engine_run(True), "read anew": engine_run(False), "generate": generate_run}
    return runs, TURNS * ANSWERED


def measured(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """CPU-seconds of each run in each round, the first one not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            began = time.process_time()
            run()
            if number:
                seconds[name].append(time.process_time() - began)
    return seconds


def report(title: str, seconds: dict[str, list[float]], tokens: int, rival: str) -> None:
    print(f"{title}: {ROWS} rows in groups of {GROUP}, {tokens} tokens sampled in each")
    for name, spent in seconds.items():
        middle = float(np.median(spent))
        ratio = float(np.median(np.array(seconds[rival]) / np.array(spent)))
        print(
            f"  {name:>10}  {ROWS / middle:7.1f} samples/CPU-s  "
            f"{ROWS * tokens / middle:8.0f} tokens/CPU-s  {ratio:5.2f} × {rival}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=4)
    given = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    model = make_model(given.width, given.layers)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, one thread")
    runs, tokens = single_turn(model)
    report("single turn", measured(runs, given.rounds), tokens, "generate")
    runs, tokens = many_turns(model)
    report("many turns", measured(runs, given.rounds), tokens, "generate")


if __name__ == "__main__":
    main()
