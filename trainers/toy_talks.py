"""Small conversations that cannot be had without memory, a plan, or knowing which reply counted.

    Recall      "my code is k3", small talk, "code ?"       ─► k3       needs what was said first
    Routine     "go" at every turn                          ─► a, b, c, … in order: needs a plan
    Chores      "red", "blue", …, one reward at the end     ─► a, b, …  needs credit by turn

    Returning   "well ?" again and again, by one user       ─► a        needs earlier conversations

Each is a Gymnasium environment of texts in a vocabulary of a few words; `word_model` is a language
model over these words, small enough to learn one of them in seconds. Whatever else the agent says
beside the right word does no harm, so that random replies succeed now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from convgym.envs.plan import PlanStep
from convgym.errors import MissingExtra
from convgym.spaces import CHARSET

CODES = ("k1", "k2", "k3", "k4")
LETTERS = ("a", "b", "c", "d")
COLOURS = ("red", "blue", "green", "grey")
WORDS = (
    *CODES, *LETTERS, *COLOURS, "my", "code", "is", "well", "go", "?", ":", "[", "]", ",", ".",
    "Said", "Earlier", "Done", "Next", "Then", "User", "Agent",
)  # fmt: skip
"""Of the environments and of the wrappers that change what is read of them."""
TEMPLATE = (
    "{% for m in messages %}{{ '<user> ' if m['role'] != 'assistant' else '<agent> ' }}"
    "{{ m['content'] }}{{ ' <end>' if m['role'] == 'assistant' else '' }}{% endfor %}"
    "{% if add_generation_prompt %}<agent> {% endif %}"
)


class Talk(gym.Env[str, str]):
    """`turns` observations, a right word for each reply, all judged at the end.

    Reward: at the end the share of judged replies that held their word; success: all did.
    """

    observation_space = spaces.Text(200, min_length=0, charset=CHARSET)
    action_space = spaces.Text(200, min_length=0, charset=CHARSET)
    turns = 3

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Draw what is said and begin."""
        super().reset(seed=seed)
        self._said, self._right = self.drawn()
        self._turn, self._hits = 0, 0
        return self._said[0], {"success": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Hear a reply."""
        right = self._right[self._turn]
        self._hits += bool(right) and right in action.split()
        self._turn += 1
        if self._turn < len(self._said):
            return self._said[self._turn], 0.0, False, False, {"success": False}
        judged = sum(bool(word) for word in self._right)
        return "", self._hits / judged, True, False, {"success": self._hits == judged}

    def drawn(self) -> tuple[Sequence[str], Sequence[str]]:
        """What the user says at each turn, and the word each reply must hold; "": none."""
        raise NotImplementedError


class Recall(Talk):
    """A code, small talk, and the question for it."""

    def drawn(self) -> tuple[Sequence[str], Sequence[str]]:
        """As `Talk`."""
        code = CODES[int(self.np_random.integers(len(CODES)))]
        talk = ["well"] * (self.turns - 2)
        return [f"my code is {code}", *talk, "code ?"], [""] * (self.turns - 1) + [code]


class Routine(Talk):
    """The same words every time, and another step to be done."""

    def drawn(self) -> tuple[Sequence[str], Sequence[str]]:
        """As `Talk`."""
        return ["go"] * self.turns, LETTERS[: self.turns]


ROUTINE = [PlanStep(letter, rf"Agent:.*\b{letter}\b") for letter in LETTERS[:3]]
"""The plan of `Routine`: a step is done once its word was said."""


class Chores(Talk):
    """Each turn names a colour, each colour wants its word."""

    turns = 6

    def drawn(self) -> tuple[Sequence[str], Sequence[str]]:
        """As `Talk`."""
        places = self.np_random.integers(len(COLOURS), size=self.turns).tolist()
        return [COLOURS[place] for place in places], [LETTERS[place] for place in places]


class Returning(gym.Env[str, str]):
    """A user with a word of its own, who tells it when a conversation is over.

    A seeded reset draws the word, one without a seed is the same user's next conversation.
    Reward and success: the reply held the word.
    """

    observation_space = Talk.observation_space
    action_space = Talk.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Ask."""
        super().reset(seed=seed)
        if seed is not None:
            self._right = LETTERS[int(self.np_random.integers(len(LETTERS)))]
        return "well ?", {"success": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Tell."""
        hit = self._right in action.split()
        return f"code is {self._right}", float(hit), True, False, {"success": hit}


def last_words(lines: Sequence[tuple[str, str]], return_: float, info: dict[str, Any]) -> str:
    """What a `ConversationMemory` notes of a conversation with `Returning`."""
    return lines[-1][1]


def word_tokenizer() -> Any:
    """One token a word, of a tokenizer of transformers."""
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingExtra(error.name or "transformers", "llm") from error
    vocabulary = ("<pad>", "<unknown>", "<end>", "<user>", "<agent>", *WORDS)
    ids = {word: number for number, word in enumerate(vocabulary)}
    made = Tokenizer(models.WordLevel(ids, unk_token="<unknown>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    made.add_special_tokens(list(vocabulary[:5]))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<end>", pad_token="<pad>", unk_token="<unknown>"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def word_model(seed: int = 0, width: int = 32, layers: int = 2) -> Any:
    """A `LanguageModel` over these words with random weights; the same seed, the same weights."""
    try:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError as error:
        raise MissingExtra(error.name or "transformers", "llm") from error
    from trainers.llm.language_model import LanguageModel

    tokenizer = word_tokenizer()
    config = AutoConfig.for_model(
        "qwen2",
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LanguageModel(AutoModelForCausalLM.from_config(config), tokenizer)
