"""Conversations of a few tokens, sampled by a plain forward of the whole row for every token.

    holds   begin cue       ─► reply        1 if the reply holds the word 7
    asks    begin ask       ─► reply, cue ─► reply    1 if the second reply holds the cue's word

A slow, obvious stand-in for the rollout engine: no cache, no chat template, no text.
"""

from collections.abc import Sequence

import numpy as np
import torch
from tiny_models import tiny_model

from trainers.llm.language_model import LanguageModel
from trainers.llm.rollouts import Rollout, Segment

VOCABULARY = 12
BEGIN, END, ASK = 1, 2, 3
CUES, WORDS = (4, 5), (7, 8)


def toy_model(seed=0, kind="qwen2", lora=None, double=False, **changes):
    model = tiny_model(kind, VOCABULARY, seed=seed, places=64, **changes)
    return LanguageModel(model.double() if double else model, None, lora)


class ToyCollector:
    exact = True

    def __init__(self, model, task="holds", temperature=1.0, max_tokens=3, fails=None, reward=None):
        self.model, self.task, self.max_tokens = model, task, max_tokens
        self.temperature = temperature
        self.fails = fails or (lambda seed, member, rng_seed: "")
        self.reward = reward
        self.seeds: list[int] = []

    def collect(
        self, seeds: Sequence[int], group_size: int, rng_seed: int, version: int = 0
    ) -> list[Rollout]:
        self.seeds += seeds
        plays = [
            _Play(self, seed, member, rng_seed) for seed in seeds for member in range(group_size)
        ]
        while waiting := [play for play in plays if not play.done]:
            for play, logits in zip(waiting, self._next([p.tokens for p in waiting]), strict=True):
                play.take(logits)
        return [play.rollout(version) for play in plays]

    @torch.no_grad()
    def _next(self, rows):
        lengths = [len(row) for row in rows]
        tokens = torch.zeros((len(rows), max(lengths)), dtype=torch.long)
        for number, row in enumerate(rows):
            tokens[number, : len(row)] = torch.tensor(row)
        logits = self.model.causal(input_ids=tokens).logits
        return logits[torch.arange(len(rows)), torch.tensor(lengths) - 1] / self.temperature


class _Play:
    def __init__(self, toy, seed, member, rng_seed):
        self.toy, self.seed = toy, seed
        self.rng = np.random.default_rng((rng_seed, seed, member))
        self.error = toy.fails(seed, member, rng_seed)
        self.cue = CUES[seed % 2]
        self.tokens = [BEGIN, self.cue if toy.task == "holds" else ASK]
        self.turns, self.log_probs = [-1, -1], [0.0, 0.0]
        self.turn, self.reply, self.done = 0, [], bool(self.error)

    def take(self, logits):
        log_probs = logits.double().log_softmax(-1)
        cumulated = log_probs.exp().cumsum(-1).numpy()
        token = int(np.searchsorted(cumulated, self.rng.random() * cumulated[-1], side="right"))
        token = min(token, VOCABULARY - 1)
        self._append(token, self.turn, float(log_probs[token]))
        self.reply.append(token)
        if token != END and len(self.reply) < self.toy.max_tokens:
            return
        if token != END:
            self._append(END, -1, 0.0)
        if self.toy.task == "asks" and self.turn == 0:
            self._append(self.cue, -1, 0.0)
            self.turn, self.reply = 1, []
        else:
            self.done = True

    def _append(self, token, turn, log_prob):
        self.tokens.append(token)
        self.turns.append(turn)
        self.log_probs.append(log_prob)

    def rollout(self, version):
        word = WORDS[0] if self.toy.task == "holds" else WORDS[CUES.index(self.cue)]
        success = word in self.reply
        rewards = np.zeros(self.turn + 1)
        rewards[-1] = float(success) if self.toy.reward is None else self.toy.reward(self)
        segment = Segment(
            np.array(self.tokens), np.array(self.turns), np.array(self.log_probs, np.float32)
        )
        return Rollout(
            segments=(segment,), rewards=rewards, group=self.seed, seed=self.seed, success=success,
            error=self.error, version=version, task=str(self.cue),
        )  # fmt: skip
