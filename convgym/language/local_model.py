"""A transformers language model in this process as a chat model.

    prompt ─► chat template ─► token ids ─┐ left-padded      ┌─► text
    prompt ─► chat template ─► token ids ─┴─► generate ──────┴─► text
                                              row i draws from seeds[i] only

What a newcomer would get wrong: torch's generator serves a whole batch, so a reply would depend
on its neighbours and every call would move global state. Here `generate` only computes scores;
each row draws its own tokens, by inverting the cumulative distribution at a uniform number from
a generator of that row's seed.

torch and transformers are imported when a model is made. Knows nothing of users or writers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any

import numpy as np

from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.language.models import (
    ChatMessage,
    Completion,
    check_batch,
    completion_of,
    plain_prompt,
    plain_reply,
    raised,
)

Tensor = Any


class LocalModel:
    """A causal language model of transformers, by name, by folder, or as objects.

        LocalModel("path/to/model").complete([[ChatMessage("user", "Hello.")]], seeds=[7])
        LocalModel(model, tokenizer, temperature=0.0)

    A prompt is written by the tokenizer's chat template, or as `plain_prompt` where it has
    none; in that case the reply ends where the model begins to write another role. Special
    tokens inside a message's content become a space, so that content cannot end its own turn.

    **Seeds.** A row's draws depend on its own seed and nothing else. The scores they are drawn
    from depend on a row's neighbours through padding and rounding, by about 1e-6 in float32:
    the same seed gives the same text in any batch, unless a draw falls that close to the border
    between two tokens (or, with `temperature=0`, the two best tokens are that close). In
    half precision this does happen. With `batch_size=1` a text depends on the prompt, the seed,
    the weights and the machine alone.

    **State.** torch's generators, flags and gradient mode stay as they were, and a model in
    training mode is in training mode again afterwards. Calls from several threads take turns.

    A copy shares the weights. A pickle of a model given by name holds the name, and loads the
    weights at its first call; one of a model given as objects holds the objects.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        temperature: float = 0.7,
        max_tokens: int = 256,
        batch_size: int = 16,
        device: str | None = None,
        load_options: Mapping[str, Any] | None = None,
        template_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Load the model, where it is given by name.

        `temperature`: 0 takes the likeliest token; 0.01 to 100 draws, the more the more varied.
        `max_tokens`: the longest reply.
        `batch_size`: how many prompts are continued together.
        `device`: where to put a model given by name; a GPU where there is one, else the CPU.
        `load_options`: for `AutoModelForCausalLM.from_pretrained`, e.g. `{"dtype": "bfloat16"}`.
        `template_options`: for the chat template, e.g. `{"enable_thinking": False}`.
        """
        if not isinstance(temperature, int | float) or not (
            temperature == 0 or 0.01 <= temperature <= 100
        ):
            raise InvalidConfiguration(
                f"temperature is {temperature!r}; it takes 0, or 0.01 to 100."
            )
        for name, number in (("max_tokens", max_tokens), ("batch_size", batch_size)):
            if not isinstance(number, int) or number < 1:
                raise InvalidConfiguration(f"{name} is {number!r}; it takes 1 or more.")
        self.name = fspath(model) if isinstance(model, str | PathLike) else None
        if self.name is None and tokenizer is None:
            raise InvalidConfiguration(
                "a model came without its tokenizer; give both, or the name of both."
            )
        self.temperature, self.max_tokens = float(temperature), max_tokens
        self.batch_size, self.device = batch_size, device
        self.load_options = dict(load_options or {})
        self.template_options = dict(template_options or {})
        self._model: Any = None if self.name is not None else model
        self._tokenizer: Any = tokenizer
        self._named_tokenizer = tokenizer
        self._lock = threading.Lock()
        self._load()

    def complete(
        self, prompts: Sequence[Sequence[ChatMessage]], seeds: Sequence[int]
    ) -> list[Completion]:
        """See `ChatModel.complete`."""
        check_batch(prompts, seeds)
        results: list[Completion] = [Completion("", "unusable prompt")] * len(prompts)
        with self._lock:
            self._load()
            rows: list[tuple[int, list[int]]] = []
            for index, prompt in enumerate(prompts):
                tokens = self._tokens(prompt)
                if isinstance(tokens, Completion):
                    results[index] = tokens
                else:
                    rows.append((index, tokens))
            rows.sort(key=lambda row: len(row[1]))  # neighbours of a length need little padding
            for start in range(0, len(rows), self.batch_size):
                batch = rows[start : start + self.batch_size]
                replies = self._replies(
                    [tokens for _, tokens in batch], [seeds[index] for index, _ in batch]
                )
                for (index, _), reply in zip(batch, replies, strict=True):
                    results[index] = reply
        return results

    def __repr__(self) -> str:
        return f"LocalModel({self.name or type(self._model).__name__!r})"

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_lock": None}
        if self.name is not None:
            state.update(_model=None, _tokenizer=self._named_tokenizer)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __copy__(self) -> LocalModel:
        twin = object.__new__(LocalModel)
        twin.__dict__.update(self.__dict__)  # the lock too: the weights are the same
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> LocalModel:
        """Share the weights: a copied environment needs no second set."""
        return self.__copy__()

    # Loading

    def _load(self) -> None:
        if self._model is not None and not isinstance(self._tokenizer, str | PathLike | None):
            return
        try:
            import torch
            import transformers
        except ImportError:
            raise MissingExtra("transformers", "writer") from None
        try:
            if isinstance(self._tokenizer, str | PathLike | None):
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                    self._tokenizer or self.name
                )
            if self._model is None:
                model = transformers.AutoModelForCausalLM.from_pretrained(
                    self.name, **self.load_options
                )
                if "device_map" not in self.load_options:
                    model.to(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
                self._model = model.eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise InvalidConfiguration(
                f"transformers cannot load a language model from {self.name!r}: "
                f"{str(error).splitlines()[0] if str(error) else type(error).__name__}"
            ) from error

    # Prompts

    def _tokens(self, prompt: Sequence[ChatMessage]) -> list[int] | Completion:
        """Token ids of a prompt, or why there are none."""
        clean = [ChatMessage(m.role, self._harmless(m.content)) for m in prompt]
        templated = bool(getattr(self._tokenizer, "chat_template", None))
        try:
            if templated:
                text = self._tokenizer.apply_chat_template(
                    [{"role": m.role, "content": m.content} for m in clean],
                    add_generation_prompt=True,
                    tokenize=False,
                    **self.template_options,
                )
            else:
                text = plain_prompt(clean)
            encoded = self._tokenizer(text, add_special_tokens=not templated)
            tokens = list(encoded["input_ids"])
        except Exception:  # a template refuses roles or orders as it likes
            return Completion("", "unusable prompt")
        if not tokens:
            return Completion("", "unusable prompt")
        window = getattr(self._model.config, "max_position_embeddings", None)
        if window is not None and len(tokens) + self.max_tokens > window:
            return Completion("", "prompt too long")
        return tokens

    def _harmless(self, content: str) -> str:
        content = content.encode("utf-8", "replace").decode("utf-8")
        for token in self._special():
            content = content.replace(token, " ")
        return content

    def _special(self) -> list[str]:
        """Texts of special tokens, the longest first."""
        added = getattr(self._tokenizer, "added_tokens_decoder", {}).values()
        names = {str(token) for token in added if getattr(token, "special", False)}
        return sorted(filter(None, names | set(self._tokenizer.all_special_tokens)), key=len)[::-1]

    # Generation

    def _replies(self, rows: Sequence[list[int]], seeds: Sequence[int]) -> list[Completion]:
        """Continue a batch of token ids."""
        try:
            with _evaluating(self._model):
                continued = self._generate(rows, seeds)
        except Exception as error:  # out of memory, a broken set of weights
            return [raised(error)] * len(rows)
        templated = bool(getattr(self._tokenizer, "chat_template", None))
        texts = (self._tokenizer.decode(ids, skip_special_tokens=True) for ids in continued)
        return [completion_of(text if templated else plain_reply(text)) for text in texts]

    def _generate(self, rows: Sequence[list[int]], seeds: Sequence[int]) -> list[list[int]]:
        import torch
        from transformers import GenerationConfig, LogitsProcessorList

        ends = self._ends()
        pad = self._tokenizer.pad_token_id
        pad = pad if pad is not None else (ends[0] if ends else 0)
        width = max(map(len, rows))
        ids = [[pad] * (width - len(row)) + row for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        device = self._model.device
        config = GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=self.max_tokens,
            pad_token_id=pad,
            eos_token_id=ends or None,
        )
        draws = [_RowSampler(self.temperature, seeds)] if self.temperature else []
        output = self._model.generate(  # tracks no gradients, by itself
            input_ids=torch.tensor(ids, device=device),  # (rows, width)
            attention_mask=torch.tensor(mask, device=device),
            generation_config=config,
            logits_processor=LogitsProcessorList(draws),
        )
        return [_until(ends, row[width:]) for row in output.tolist()]

    def _ends(self) -> list[int]:
        """Tokens that end a reply: a chat model may know more than its tokenizer."""
        config = getattr(self._model, "generation_config", None)
        named = getattr(config, "eos_token_id", None)
        ends = named if isinstance(named, list) else [named]
        return [
            end for end in dict.fromkeys([*ends, self._tokenizer.eos_token_id]) if end is not None
        ]


def _until(ends: Sequence[int], row: Sequence[int]) -> list[int]:
    """A row up to the first token that ends it."""
    return list(row[: next((i for i, token in enumerate(row) if token in ends), len(row))])


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode, for every part of the model that is in training mode."""
    training = [part for part in model.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


class _RowSampler:
    """Leaves each row the one token it draws; picking the best of them is then a draw.

    token = min { k : F(k) > u },  F cumulative softmax(scores / temperature),  u of the row.
    """

    def __init__(self, temperature: float, seeds: Sequence[int]) -> None:
        self._temperature = temperature
        self._generators = [np.random.default_rng(int(seed) % 2**64) for seed in seeds]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:  # (rows, tokens)
        import torch

        uniform = torch.tensor([[g.random()] for g in self._generators], dtype=torch.float64)
        shares = torch.softmax(scores.float() / self._temperature, dim=-1)
        if shares.device.type == "mps":  # which has no float64
            shares = shares.cpu()
        cumulative = shares.double().cumsum(-1)
        border = uniform.to(shares.device) * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, border, right=True).clamp_max(scores.shape[-1] - 1)
        kept = torch.full_like(scores, float("-inf"))
        return kept.scatter(1, drawn.to(scores.device), 0.0)
