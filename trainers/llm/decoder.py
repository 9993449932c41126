"""Forward passes of a causal model of transformers over the lanes of a key-value cache.

    read   contexts of different lengths, padded on the left, so that the logits wanted are the
           last column's;  a row's queries see its lane up to themselves
    step   one token for each of the first n lanes, which are a view of the cache and not a copy

Positions and masks are always explicit. Whether a model really works so is found out once, by
comparing it with its own plain forward pass. Knows nothing of sampling or conversations.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, MissingExtra

try:
    import torch
    from torch import Tensor

    from trainers.llm.key_value_cache import KeyValueCache
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error


class Decoder:
    """A model with a cache of `lanes` conversations; the caller knows which lane holds what."""

    def __init__(self, model: Any, lanes: int) -> None:
        self.model = model
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._config = inner.config.get_text_config()
        implementation = self._config._attn_implementation
        if implementation not in ("sdpa", "eager"):
            raise InvalidConfiguration(
                f"attention {implementation!r} takes no mask for every row; load the model with "
                'attn_implementation="sdpa"'
            )
        parameter = next(model.parameters())
        self._device, self._dtype = parameter.device, parameter.dtype
        self._masked = torch.finfo(self._dtype).min
        accepted = inspect.signature(inner.forward).parameters
        self._last = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self.cache = KeyValueCache(self._config.num_hidden_layers, lanes)
        self._lanes = torch.arange(lanes, device=self._device)
        self._check_model()

    def check_context(self, places: int) -> None:
        """Raise InvalidConfiguration if the model cannot read conversations of so many tokens."""
        limit = getattr(self._config, "max_position_embeddings", None)
        if limit is not None and places > limit:
            raise InvalidConfiguration(
                f"max_context={places}, and this model reads {limit} tokens at most; lower it"
            )
        window = getattr(self._config, "sliding_window", None)
        if window is not None and places > window:
            raise InvalidConfiguration(
                f"max_context={places}, and layers of this model see {window} tokens only; "
                "lower it to that"
            )

    def read(
        self, lanes: NDArray[np.int64], contexts: Sequence[NDArray[np.int64]], starts: NDArray[Any]
    ) -> Tensor:
        """Read what lanes do not hold yet; logits of what follows each context.

        Row i reads `contexts[i][starts[i]:]`, at least one token, into `lanes[i]`.  → (n, V)
        """
        lengths = np.array([len(context) for context in contexts])
        longest, width = int((lengths - starts).max()), int(lengths.max())
        self.cache.reserve(width)
        places = lengths[:, None] - longest + np.arange(longest)[None]  # (n, T)
        real = places >= starts[:, None]
        tokens = np.zeros(places.shape, np.int64)
        tokens[real] = np.concatenate(
            [context[start:] for context, start in zip(contexts, starts, strict=True)]
        )
        written = self._on(lanes), self._on(np.where(real, places, -1))
        places = np.where(real, places, 0)
        if starts.any():
            visible = np.arange(width) <= places[..., None]  # (n, T, width)
            rows: slice | Tensor = written[0]
            if (np.diff(lanes) == 1).all():  # side by side: a view, not a copy
                rows = slice(int(lanes[0]), int(lanes[-1]) + 1)
            self.cache.write(*written, rows, width)
        else:  # the batch itself is all there is to see; padding sees itself
            column = np.arange(longest)
            visible = (column <= column[:, None]) & real[:, None, :]
            visible |= column == column[:, None]
            self.cache.write(*written, None, 0)
        mask = torch.zeros(visible.shape, dtype=self._dtype, device=self._device)
        mask = mask.masked_fill_(self._on(~visible), self._masked)[:, None]
        return self._forward(self._on(tokens), self._on(places), mask)

    def step(self, tokens: NDArray[np.int64], places: NDArray[np.int64]) -> Tensor:
        """One token at `places[i]` of lane i, for the first n lanes; −1: lane i is left alone.

        (n,), (n,) → (n, V)
        """
        count, width = len(places), int(places.max()) + 1
        self.cache.reserve(width)
        at = self._on(places)[:, None]
        self.cache.write(self._lanes[:count], at, slice(0, count), width)
        mask = torch.zeros((count, 1, 1, width), dtype=self._dtype, device=self._device)
        if int(places.min()) + 1 < width:
            later = torch.arange(width, device=self._device) > at
            mask.masked_fill_(later[:, None, None], self._masked)
        return self._forward(self._on(tokens)[:, None], at.clamp(min=0), mask)

    def copy(self, source: NDArray[np.int64], target: NDArray[np.int64], width: int) -> None:
        """What lanes `source` hold, as far as `width`, to lanes `target`."""
        self.cache.copy(source.tolist(), target.tolist(), width)

    def swap(self, one: NDArray[np.int64], other: NDArray[np.int64], width: int) -> None:
        """Lanes change places."""
        self.cache.swap(one.tolist(), other.tolist(), width)

    # -- the model -----------------------------------------------------------------------------

    def _forward(self, tokens: Tensor, places: Tensor, mask: Tensor) -> Tensor:
        made = self.model(
            input_ids=tokens,
            position_ids=places,
            attention_mask=mask,
            past_key_values=self.cache,
            use_cache=True,
            **self._last,
        )
        logits: Tensor = made.logits[:, -1]
        return logits

    def _on(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    @torch.no_grad()
    def _check_model(self) -> None:
        """Read, step and read on with the first two lanes, and compare with a plain pass."""
        vocabulary = self.model.get_input_embeddings().num_embeddings
        tokens = np.arange(7, dtype=np.int64) * 31 % vocabulary
        first, rows = np.zeros(1, np.int64), np.zeros(1, np.int64)
        try:
            expected = self.model(input_ids=self._on(tokens)[None], use_cache=False).logits[0]
            found = [self.read(rows, [tokens[:3]], first), self.step(tokens[3:4], first + 3)]
            found.append(self.read(rows, [tokens], first + 4))
        except Exception as error:  # each architecture fails in its own way
            raise InvalidConfiguration(
                f"this model does not work with keys and values kept between turns "
                f"({type(error).__name__}: {str(error)[:200]}); take a causal model with full "
                "attention, or pass a function as sampler"
            ) from error
        expected = expected[[2, 3, 6]].float()
        off = float((torch.cat(found).float() - expected).abs().max() / expected.std())
        if not off <= (0.01 if self._dtype == torch.float32 else 0.5):
            raise InvalidConfiguration(
                f"with keys and values kept, this model's logits are {off:.2g} standard deviations "
                "from those of a plain pass; take a causal model with full attention, or pass a "
                "function as sampler"
            )
