"""Texts as vectors of a sentence encoder such as all-MiniLM-L6-v2, through onnxruntime.

    folder/tokenizer.json             text ─► tokens, at most 256, [CLS] and [SEP] among them
    folder/onnx/model.onnx            tokens ─► a vector for each  (n, tokens, dim)
      or folder/model.onnx            their mean ─► length 1

The folder is local, in the layout that sentence-transformers models have on the hub; nothing is
fetched. What a newcomer would get wrong: a model that was trained on its first token's vector
gives poor means; take one that was trained on means. The same list of texts gives the same bytes
on one machine, for one thread computes them; other neighbours may move a vector's last bits.
Needs the extra "onnx".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from convgym.errors import InvalidConfiguration, MissingExtra, told
from convgym.language.encoders import Vectors, check_list

MOST_TOKENS = 256
"""Tokens of a text that are read; what comes after them is cut off."""
AT_ONCE = 32
"""Texts that go through the model together, of like lengths."""
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


class OnnxEncoder:
    """Mean of the model's token vectors, of length 1."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Load the model and the tokenizer of a folder.

        Raises InvalidConfiguration where one of them is missing, damaged, or takes and gives
        something else; MissingExtra without onnxruntime or tokenizers.
        """
        self._folder = Path(folder)
        paths = self._folder / "onnx" / "model.onnx", self._folder / "model.onnx"
        model = next((path for path in paths if path.is_file()), None)
        tokenizer = self._folder / "tokenizer.json"
        if model is None or not tokenizer.is_file():
            raise InvalidConfiguration(
                f"{folder} lacks a sentence encoder's files; it takes tokenizer.json, and "
                "model.onnx beside it or in its folder onnx"
            )
        try:
            self._session, self._tokenizer = _session(model), _tokenizer(tokenizer)
        except MissingExtra:
            raise
        except Exception as error:  # both libraries raise what has no base of their own
            raise InvalidConfiguration(
                f"{folder} holds no sentence encoder: {told(error)}"
            ) from error
        self._inputs = {put.name for put in self._session.get_inputs()}
        shape = self._session.get_outputs()[0].shape
        if not self._inputs <= _INPUTS or len(shape) != 3:
            raise InvalidConfiguration(
                f"{model} takes {sorted(self._inputs)} and gives {shape}; a sentence encoder takes "
                f"{sorted(_INPUTS)} and gives (texts, tokens, numbers)"
            )
        self._dim = self._means([self._tokens("a")]).shape[1]
        beside = sorted(model.parent.glob("model.onnx*"))  # a large model's weights are
        self._name = f"onnx-{self._dim}-{_hash([*beside, tokenizer])}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes load the files again."""
        return OnnxEncoder, (self._folder,)

    @property
    def name(self) -> str:
        """`onnx-384-1f0c…`: dimensions, and a hash of the files."""
        return self._name

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return self._dim

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text.  (n,) → (n, dim) float32"""
        check_list(texts)
        tokens = [self._tokens(text) for text in texts]
        found = np.zeros((len(texts), self._dim), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(tokens[place]))
        for first in range(0, len(order), AT_ONCE):
            places = order[first : first + AT_ONCE]
            found[places] = self._means([tokens[place] for place in places])
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return (found / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)

    def _tokens(self, text: str) -> list[int]:
        whole = text.encode("utf-8", "replace").decode()  # half a character is none to tokenizers
        ids: list[int] = self._tokenizer.encode(whole).ids
        return ids

    def _means(self, tokens: Sequence[list[int]]) -> Vectors:
        """The mean of each text's token vectors, not of what pads them.  n texts → (n, dim)"""
        lengths = np.array([len(ids) for ids in tokens])
        # One column at least, for models fail on none.
        mask = np.arange(max(1, lengths.max())) < lengths[:, None]  # (n, tokens)
        ids = np.zeros(mask.shape, dtype=np.int64)
        ids[mask] = np.concatenate(tokens)
        inputs = {
            "input_ids": ids,
            "attention_mask": mask.astype(np.int64),
            "token_type_ids": np.zeros_like(ids),
        }
        (vectors, *_) = self._session.run(None, {name: inputs[name] for name in self._inputs})
        total = np.einsum("ntd,nt->nd", vectors.astype(np.float32), mask.astype(np.float32))
        means: Vectors = total / np.maximum(lengths, 1).astype(np.float32)[:, None]
        return means


def _session(path: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra("onnxruntime", "onnx") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _tokenizer(path: Path) -> Any:
    """With our limit, and without the padding, that its file may ask for."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtra("tokenizers", "onnx") from error
    tokenizer = Tokenizer.from_file(os.fspath(path))
    tokenizer.enable_truncation(max_length=MOST_TOKENS)
    tokenizer.no_padding()
    return tokenizer


def _hash(paths: Sequence[Path]) -> str:
    """Of names and contents of files."""
    digest = blake2b(digest_size=8)
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()
