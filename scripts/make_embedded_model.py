"""Make the language model that comes with ConvGym, from the simulator's own conversations.

    python scripts/make_embedded_model.py [--out trainers/llm/embedded/model] [--conversations 7200]
                                          [--epochs 3] [--seed 0] [--threads 1] [--measure 500]
    python scripts/make_embedded_model.py --domains customer-service technical-support sales
                                          --conversations 5000 --vocabulary 1300 --out joint
    python scripts/make_embedded_model.py --copied --width 512 --layers 8 --vocabulary 4000
                                          --conversations 60000 --learning-rate 1e-3 --batch 64
                                          --device cuda --out copying

    scripted agents, hesitant ─► conversations, a third of them good ─► byte-level BPE ─► Llama, SFT

The agents are those of the ladder (keyword, slot-filling, planner, oracle) at the desk of
`ConvGym/OneRequest-v0`, on the training split and its wordings; with several domains, at each
desk as often. Each turn they may slip and do another legal act of that workflow, so that most
conversations fail: a model that imitates them succeeds now and then, and has all that it needs to
learn the rest by reinforcement. What they say is short, one wording an act, each of which the
customer understands; it stands in `embedded_agents.toml`. The same arguments give the same model
on the same machine.

With `--copied` values are no handles: the model reads whole results and copies numbers and
addresses letter by letter, each digit a token. That takes more weights than a processor trains in
minutes; the third command makes 27 million of them on a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from convgym.domains.catalogue import domain_called
from convgym.engine.keys import POLICY, draw
from convgym.errors import ConvGymError
from convgym.language.phrases import PhraseBank
from convgym.policies.policy import ActPolicy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder
from convgym.policies.sales import FirmOraclePolicy
from trainers.llm.chat_format import ChatFormat
from trainers.llm.conversations import Message
from trainers.llm.language_model import LanguageModel
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler

ENVIRONMENT = "ConvGym/OneRequest-v0"
TABLES: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("embedded_agents.toml").read_text(encoding="utf-8")
)
"""What the agents of each domain say and do; see the file."""
USUAL = ("customer-service",)
AGENTS = {
    "customer-service": (("oracle", 0.42, 0.7), ("planner", 0.4, 0.1), ("slot-filling", 0.4, 0.1),
                         ("keyword", 0.3, 0.1)),
    "technical-support": (("oracle", 0.45, 0.8), ("planner", 0.4, 0.1), ("keyword", 0.3, 0.1)),
    "sales": (("firm oracle", 0.25, 0.8), ("slot-filling", 0.25, 0.1), ("keyword", 0.25, 0.1)),
}  # fmt: skip
"""Who plays: scripted agent, probability of a slip at each turn, share of the conversations."""

ROLES = ("system", "user", "tool", "assistant")
SPECIALS = ("<|pad|>", "<|end|>", *(f"<|{role}|>" for role in ROLES))
TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
PIECES = "|".join(
    (
        r'\{"name": "\w+", "arguments": \{(?:"\w+": ")?(?:\}\})?',  # all of a call but its value
        r' ?[\]}"]*(?:, )?[\[{]*"\w+":(?: ")?',  # what stands around a key of a result
        r" ?\w+",
        r" ?[^\s\w]+(?: [^\s\w]+)*",
        r"\s+",
    )
)
"""What BPE may not merge across; so a call whose like comes often is a few tokens."""
BARE = re.compile("<think></think>|</?tool_call>")
"""What a reply does without."""
LONGEST = 600
"""Tokens of a conversation that are learnt from."""
LONGEST_COPIED = 2000
"""The same with values as they are."""
COPIED_PIECES = "|".join((r" ?[^\W\d_]+", r" ?\d", r" ?[^\s\w]+", r"_", r"\s+"))
"""What BPE may not merge across where values are copied: a digit stands alone."""

Row = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""Tokens, and which of them the agent said.  (L,), (L,)"""


class Hesitant(ActPolicy):
    """Another policy that slips now and then: a legal act of the workflow in place of its own."""

    def __init__(self, policy: ActPolicy, slips: float, domain: str) -> None:
        super().__init__()
        self.name, self._policy, self._slips = f"hesitant {policy.name}", policy, slips
        actions = domain_called(domain).actions
        self._acts = np.array([actions[name] for name in TABLES[domain]["workflow"]])

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        super().reset(seed)
        self._policy.reset(seed)

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> NDArray[np.float64]:
        """(1 − slips) as the policy, the rest spread over the legal acts of the workflow."""
        own = self._policy.action_probs(observation, action_masks)
        legal = np.zeros(len(own))
        legal[self._acts] = action_masks[self._acts]
        if not legal.sum():
            return own
        return (1 - self._slips) * own + self._slips * legal / legal.sum()


def handles_of(domains: Sequence[str]) -> dict[str, int]:
    """How many handles of each kind are tokens of their own: the most that a domain needs."""
    found: dict[str, int] = {}
    for domain in domains:
        for kind, most in TABLES[domain]["handles"].items():
            found[kind] = max(most, found.get(kind, 0))
    return found


def short_bank(domain: str) -> PhraseBank:
    """One wording for each act of the agent, and no thoughts."""
    bank, short = domain_called(domain).agent_banks()["train"], TABLES[domain]["short"]
    unsaid = tuple(TABLES[domain]["unsaid"])
    kept = [name for name in bank if name in short or not name.startswith(unsaid)]
    return PhraseBank(
        {
            name: [""]
            if name.startswith("think_")
            else [short.get(name) or min(bank.variants(name), key=len)]
            for name in kept
        }
    )


def players_of(domain: str) -> list[RenderedPolicy]:
    """The scripted agents of a domain, hesitant and short."""
    made = {**ladder(domain), FirmOraclePolicy.name: FirmOraclePolicy}
    return [
        RenderedPolicy(Hesitant(made[name](), slips, domain), short_bank(domain), domain)
        for name, slips, _ in AGENTS[domain]
    ]


def conversations(
    number: int, seed: int, domain: str = USUAL[0], copied: bool = False
) -> Iterator[tuple[list[Message], bool]]:
    """What was read and said, handles for values unless `copied`, and whether it was a success."""
    env = gym.make(
        ENVIRONMENT, domain=domain, split="train", handles=not copied, disable_env_checker=True
    )
    players = players_of(domain)
    shares = np.cumsum([share for *_, share in AGENTS[domain]])
    for place in range(number):
        episode = seed * number + place
        player = players[int(np.searchsorted(shares, draw(episode, POLICY, 0, 9) / 2**32))]
        observation, info = env.reset(seed=episode)
        player.reset(episode)
        said, ended = shown(observation), False
        while not ended:
            reply = BARE.sub("", player.predict(observation)[0])
            if not copied:
                reply = env.get_wrapper_attr("handles").shorten(reply)
            said.append({"role": "assistant", "content": reply})
            observation, _, terminated, truncated, info = env.step(reply)
            ended = terminated or truncated
            said += [message for message in shown(observation) if message["content"] or not ended]
        yield said, bool(info["success"])


def shown(observation: Any) -> list[Message]:
    """An observation as messages, as `TextEnvironment` shows it."""
    results, words = observation["tool_results"], observation["message"]
    found = [{"role": "tool", "content": results}] if results else []
    return [*found, {"role": "user", "content": words}] if words or not found else found


def tokenizer_of(
    texts: Sequence[str], size: int, kinds: Mapping[str, int], pieces: str = PIECES
) -> PreTrainedTokenizerFast:
    """A byte-level BPE of these texts, with a token for each role and each handle."""
    handles = [f"{kind}:{n}" for kind, most in kinds.items() for n in range(1, most + 1)]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    between = re.compile(rf"(?:{'|'.join(kinds)}):[0-9]+" if kinds else r"\Z")
    made.train_from_iterator(
        (piece for text in texts for piece in between.split(text)),
        trainers.BpeTrainer(
            vocab_size=size - len(handles),
            special_tokens=list(SPECIALS),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    made.add_tokens([AddedToken(one, normalized=False, special=False) for one in handles])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=SPECIALS[0],
        eos_token=SPECIALS[1],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def model_of(vocabulary: int, width: int, layers: int, seed: int, places: int = 1024) -> Any:
    """A Llama with random weights and tied embeddings."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=width * 8 // 3 // 8 * 8,
        num_hidden_layers=layers,
        num_attention_heads=max(4, width // 64),
        num_key_value_heads=max(4, width // 64),
        max_position_embeddings=places,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    return AutoModelForCausalLM.from_config(config).float()


def row_of(said: Sequence[Message], form: ChatFormat, longest: int = LONGEST) -> Row:
    """A conversation as it is prompted and sampled, piece by piece."""
    replies = [k for k, message in enumerate(said) if message["role"] == "assistant"]
    ids, own, before = [], [], 0
    for number, place in enumerate(replies):
        read = said[before:place]
        prompt = form.continuation(read) if number else form.opening(read)
        reply = form.reply(said[place]["content"])
        ids += prompt + reply
        own += [False] * len(prompt) + [True] * len(reply)
        before = place + 1
    return np.array(ids[:longest]), np.array(own[:longest])


def fit(model: Any, rows: Sequence[Row], asked: argparse.Namespace) -> None:
    """Likelihood of what the agent said, and with less weight of what it read."""
    rng = np.random.default_rng(asked.seed)
    usual = asked.batch * float(np.mean([own.sum() for _, own in rows]))
    steps, step = asked.epochs * math.ceil(len(rows) / asked.batch), 0
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=asked.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    model.train()
    for _ in range(asked.epochs):
        for batch in batches(rows, asked.batch, rng):
            warm = min(1.0, (step + 1) / 50)
            cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
            for group in optimizer.param_groups:
                group["lr"] = asked.learning_rate * warm * (0.05 + 0.95 * cosine)
            tokens, own = padded(batch)
            words = model.config.vocab_size - sum(kinds_of(asked).values())
            seen = misread(tokens, words, asked.noise, rng)
            seen, tokens, own = (part.to(asked.device) for part in (seen, tokens, own))
            with torch.autocast(asked.device, torch.bfloat16, enabled=asked.device != "cpu"):
                total, said = losses(model, seen, tokens, own, asked.read)
            optimizer.zero_grad(set_to_none=True)
            (total / usual).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % 100 == 0:
                print(f"step {step} of {steps}: {said:.3f} nats a token said", flush=True)
    model.eval()


def misread(tokens: torch.Tensor, words: int, rate: float, rng: np.random.Generator) -> Any:
    """Some of the user's words made those of others, so that a model leans on no single one.

    Wordings that it has not read then tell it more. `words` is the number of tokens before the
    handles, which stay.  # (B, T)
    """
    ids = tokens.numpy()
    marks = np.where((ids > 0) & (ids < len(SPECIALS)), np.arange(ids.shape[1]), 0)
    speaker = np.take_along_axis(ids, np.maximum.accumulate(marks, axis=1), axis=1)
    heard = (speaker == SPECIALS.index("<|user|>")) & (ids >= len(SPECIALS)) & (ids < words)
    changed = heard & (rng.random(ids.shape) < rate)
    found = ids.copy()
    found[changed] = rng.choice(ids[heard], int(changed.sum()))
    return torch.from_numpy(found)


def losses(
    model: Any, seen: torch.Tensor, tokens: torch.Tensor, own: torch.Tensor, read: float
) -> tuple[torch.Tensor, float]:
    """Weighted sum over the tokens of a batch, and the mean over those that were said.

    A sum, because rows of like length share a batch: a mean over each batch's own tokens would
    give those of short conversations, which ended too early, more weight than others.
    """
    states = model.base_model(input_ids=seen, use_cache=False).last_hidden_state[:, :-1]
    target, said = tokens[:, 1:], own[:, 1:]
    weight = torch.where(said, 1.0, read) * (target != 0)
    at = weight > 0
    found = F.cross_entropy(model.lm_head(states[at]), target[at], reduction="none")
    return (found * weight[at]).sum(), float(found.detach()[said[at]].mean())


def batches(rows: Sequence[Row], size: int, rng: np.random.Generator) -> Iterator[list[Row]]:
    """All rows once, those of like length together, in random order."""
    order = np.argsort([len(ids) + 30 * rng.random() for ids, _ in rows])
    cut = [order[at : at + size] for at in range(0, len(order), size)]
    for number in rng.permutation(len(cut)):
        yield [rows[place] for place in cut[number]]


def padded(rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, zeros after them, and whose they are.  (B, T), (B, T)"""
    longest = max(len(ids) for ids, _ in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    said = torch.zeros(len(rows), longest, dtype=torch.bool)
    for place, (ids, own) in enumerate(rows):
        tokens[place, : len(ids)] = torch.from_numpy(ids)
        said[place, : len(own)] = torch.from_numpy(own)
    return tokens, said


def kinds_of(asked: argparse.Namespace) -> dict[str, int]:
    """Handles that are tokens; none where values are copied."""
    return {} if asked.copied else handles_of(asked.domains)


def measured(
    model: LanguageModel, episodes: int, copied: bool = False, **keywords: Any
) -> dict[str, float]:
    """Plain sampling at temperature 1."""
    keywords = {**keywords, "handles": not copied}
    sampling = Sampling(max_tokens=96 if copied else 24, max_context=2000 if copied else 512)
    engine = RolloutEngine(
        TextEnvironment(ENVIRONMENT, system="", kwargs=keywords),
        TransformersSampler(model.module),
        ChatFormat(model.tokenizer),
        sampling,
        max_turns=24,
    )
    found = engine.collect(range(episodes), 1, rng_seed=0)
    engine.close()
    return {
        "success": float(np.mean([rollout.success for rollout in found])),
        "graded": float(np.mean([rollout.return_ for rollout in found])),
        "turns": float(np.mean([len(rollout.rewards) for rollout in found])),
        "tokens": float(np.mean([sum(len(s.tokens) for s in r.segments) for r in found])),
    }


def run(asked: argparse.Namespace) -> None:
    """Make it, measure it, write it."""
    torch.set_num_threads(asked.threads)
    began = time.process_time()
    played = []
    for domain in asked.domains:
        found = list(conversations(asked.conversations, asked.seed, domain, asked.copied))
        good = np.mean([success for _, success in found])
        print(f"{domain}: {len(found)} conversations, {good:.3f} good, {_since(began)}")
        played += found
    texts = [message["content"] for said, _ in played for message in said]
    pieces = COPIED_PIECES if asked.copied else PIECES
    tokenizer = tokenizer_of(texts, asked.vocabulary, kinds_of(asked), pieces)
    form, longest = ChatFormat(tokenizer), LONGEST_COPIED if asked.copied else LONGEST
    rows = [row_of(said, form, longest) for said, _ in played]
    places = 2048 if asked.copied else 1024
    model = model_of(len(tokenizer), asked.width, asked.layers, asked.seed, places)
    model.to(asked.device)
    weights = sum(weight.numel() for weight in model.parameters())
    print(
        f"{len(tokenizer)} tokens, {weights} weights, "
        f"{np.mean([len(ids) for ids, _ in rows]):.0f} tokens a conversation, "
        f"{np.mean([own.sum() for _, own in rows]):.0f} of them said"
    )
    began = time.process_time()
    fit(model, rows, asked)
    print(f"learnt, {_since(began)}")
    model.half()  # what is shipped is what is measured
    LanguageModel(model, tokenizer).save(asked.out)
    made = LanguageModel.load(asked.out, device=asked.device)
    for domain in asked.domains if asked.measure else ():
        for split, phrases in (("test", "held_out"), ("train", "train")):
            scores = measured(
                made, asked.measure, asked.copied, domain=domain, split=split, phrases=phrases
            )
            shown_as = json.dumps({name: round(score, 3) for name, score in scores.items()})
            print(f"{domain}, {split}, {phrases}: {shown_as}", flush=True)
    size = sum(file.stat().st_size for file in asked.out.iterdir() if file.is_file())
    print(f"{asked.out}: {size} bytes")


def _since(began: float) -> str:
    return f"{time.process_time() - began:.0f} CPU-s"


def main() -> None:
    """The command."""
    it = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    it.add_argument("--out", type=Path, default=Path("trainers/llm/embedded/model"))
    it.add_argument("--domains", nargs="+", default=list(USUAL), choices=list(TABLES))
    it.add_argument("--conversations", type=int, default=7200, help="in each domain")
    it.add_argument("--epochs", type=int, default=3)
    it.add_argument("--batch", type=int, default=16, help="conversations a step")
    it.add_argument("--learning-rate", type=float, default=3e-3)
    it.add_argument("--read", type=float, default=0.25, help="weight of a token that was read")
    it.add_argument("--noise", type=float, default=0.15, help="share of a user's words misread")
    it.add_argument("--copied", action="store_true", help="values as they are, no handles")
    it.add_argument("--device", default="cpu", help="cpu, or a GPU such as cuda")
    it.add_argument("--vocabulary", type=int, default=1000)
    it.add_argument("--width", type=int, default=96)
    it.add_argument("--layers", type=int, default=4)
    it.add_argument("--seed", type=int, default=0)
    it.add_argument("--threads", type=int, default=1)
    it.add_argument("--measure", type=int, default=500, help="episodes; 0: none")
    try:
        run(it.parse_args())
    except ConvGymError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
