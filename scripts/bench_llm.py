"""Language-model learning beside trl's GRPOTrainer: samples per CPU-second, in one run.

    python scripts/bench_llm.py                 one turn: prompt 70 tokens, up to 32 sampled
    python scripts/bench_llm.py --turns 5       conversations: trl with our rollouts, and our loop

Both have the same model (0.64 million random weights), the same tokenizer and chat template, 8
prompts × 8 replies a step, one optimiser step for each, one thread, single precision; the sampled
end token ends a reply early now and then, alike for both. Rounds alternate, so that what else the
machine does meets both. Without trl ours is measured alone.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from convgym.spaces import CHARSET
from trainers.llm.language_model import LanguageModel
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment

WORDS = ("order", "number", "please", "refund", "the", "I", "is", "my", "where", "parcel", "late")
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
ROWS, GROUP = 64, 8


class Talk(gym.Env[str, str]):
    """A user who says so many words in each of `turns` turns, whatever it hears."""

    observation_space = spaces.Text(4096, min_length=0, charset=CHARSET)
    action_space = spaces.Text(4096, min_length=0, charset=CHARSET)

    def __init__(self, turns: int = 1, first: int = 62, then: int = 12) -> None:
        self.turns, self.first, self.then, self.turn = turns, first, then, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Say the first words."""
        super().reset(seed=seed)
        self.turn = 0
        return self._words(self.first), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say the next; a reply of even length earns 1, so that rewards differ."""
        self.turn += 1
        over = self.turn == self.turns
        return self._words(self.then), float(len(action) % 2), over, False, {"success": False}

    def _words(self, number: int) -> str:
        return " ".join(self.np_random.choice(WORDS, number))


def make_tokenizer(size: int = 488) -> PreTrainedTokenizerFast:
    """A byte-level BPE with two special tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    made.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = BpeTrainer(
        vocab_size=size,
        special_tokens=["<|pad|>", "<|start|>", "<|end|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator([f" {word} {word}" for word in (*WORDS, "user", "assistant")], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|end|>", pad_token="<|pad|>"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_model(tokenizer: Any, width: int, layers: int) -> Any:
    """Random weights; the same each time."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "qwen2",
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return AutoModelForCausalLM.from_config(config)


def our_rounds(asked: argparse.Namespace) -> Callable[[], float]:
    """CPU-seconds of so many of our steps."""
    tokenizer = make_tokenizer()
    model = LanguageModel(make_model(tokenizer, asked.width, asked.layers), tokenizer)
    config = PolicyOptimizerConfig(
        seeds_per_iteration=ROWS // GROUP,
        group_size=GROUP,
        learning_rate=1e-6,
        sampling=Sampling(max_tokens=asked.tokens),
        iterations=0,
        flat_patience=None,
    )
    environment = TextEnvironment(lambda: Talk(asked.turns))
    optimizer = PolicyOptimizer(model, environment, config)

    def run() -> float:
        optimizer.config = optimizer.config.changed(
            iterations=optimizer.config.iterations + asked.steps
        )
        begun = time.process_time()
        optimizer.train()
        return time.process_time() - begun

    return run


def their_rounds(asked: argparse.Namespace) -> Callable[[], float]:
    """CPU-seconds of so many of trl's steps; the first step of each round is left out."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from trainers.llm.adapters.trl_rollouts import RolloutFunction, episode_return, seed_prompts

    tokenizer = make_tokenizer()
    model = make_model(tokenizer, asked.width, asked.layers)
    moments: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        """CPU-seconds at the end of each step."""

        def on_step_end(self, *_: Any, **__: Any) -> None:
            """Look at the clock."""
            moments.append(time.process_time())

    talk = Talk()
    texts = [talk.reset(seed=seed)[0] for seed in range(512)]
    conversations = asked.turns > 1
    data = Dataset.from_list([{"prompt": [{"role": "user", "content": text}]} for text in texts])

    def run() -> float:
        arguments = GRPOConfig(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=asked.piece,
            gradient_accumulation_steps=ROWS // asked.piece,
            num_generations=GROUP,
            max_completion_length=asked.tokens if not conversations else 512,
            max_steps=asked.steps + 1,
            learning_rate=1e-6,
            beta=0.0,
            loss_type="grpo",
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            report_to=[],
            save_strategy="no",
            logging_steps=10_000,
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        play = RolloutFunction(
            TextEnvironment(lambda: Talk(asked.turns)), Sampling(max_tokens=asked.tokens)
        )
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            train_dataset=seed_prompts(512) if conversations else data,
            reward_funcs=episode_return if conversations else _even,
            rollout_func=play if conversations else None,
            args=arguments,
            callbacks=[Clock()],
        )
        moments.clear()
        trainer.train()
        return moments[-1] - moments[0]

    return run


def _even(completions: Sequence[Any], **_: Any) -> list[float]:
    return [float(len(completion[0]["content"]) % 2) for completion in completions]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=32, help="sampled, of a reply")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--piece", type=int, default=ROWS, help="rows of trl's micro-batches")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    sides = {"ours": our_rounds(asked)}
    if find_spec("trl") is not None:
        sides["trl"] = their_rounds(asked)
    for run in sides.values():
        run()  # what is made once
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(asked.rounds):
        for name, run in sides.items():
            found[name].append(ROWS * asked.steps / run())
    for name, rates in found.items():
        print(f"{name}: {np.median(rates):.1f} samples per CPU-second, rounds {np.round(rates, 1)}")
    if "trl" in found:
        ratios = np.array(found["ours"]) / np.array(found["trl"])
        print(f"ours / trl: {np.median(ratios):.2f}, rounds {np.round(ratios, 2)}")


if __name__ == "__main__":
    main()
