"""Replies from a vLLM server: token ids there and back, the server batches as it likes.

    vllm serve MODEL [--enable-lora --max-lora-rank 16]        on whatever machine has the GPU

    engine ─► Request ─► POST /v1/completions  prompt: ids ─► token_ids, log-probabilities ─► Reply
    model that learns ─► adapter's folder ─► POST /v1/load_lora_adapter        `AdapterUpdates`

Nothing is tokenised on the way. A server computes in other batches and often in other precision
than the learner does: `sampler_correction` of an objective weighs what that changes, and the loop
reports it. The same seeds give the same draws only as far as the server keeps its promise of that.
Written to vLLM's documented interface (`return_token_ids`: 0.10.2 and later).
"""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from convgym.errors import InvalidConfiguration
from trainers.llm.sampler import Reply, Request
from trainers.llm.sampling import Sampling

if TYPE_CHECKING:
    from trainers.llm.language_model import LanguageModel

_SEEDS = 2**63
_TOLD = 300
"""Characters of what a server says that are repeated."""


class VLLMServer:
    """One server's address; raises InvalidConfiguration for what is none, or does not answer."""

    def __init__(
        self, url: str = "http://127.0.0.1:8000/v1", *, api_key_variable: str | None = None,
        timeout: float = 600.0,
    ) -> None:  # fmt: skip
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidConfiguration(
                f"url={url!r}; it is a server's address, such as http://127.0.0.1:8000/v1"
            )
        self.url, self.timeout, self._key = url.rstrip("/"), timeout, api_key_variable

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What the server answers, as plain values, or as text where it is no JSON."""
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {os.environ.get(self._key, '')}"
        request = urllib.request.Request(
            f"{self.url}/{path}", json.dumps(body).encode(), headers, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                said = response.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            told = error.read().decode("utf-8", "replace")[:_TOLD]
            raise InvalidConfiguration(
                f"{self.url}/{path} refused with {error.code}: {told}"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise InvalidConfiguration(
                f"{self.url} does not answer ({error}); start it with: vllm serve MODEL"
            ) from None
        try:
            return json.loads(said)
        except ValueError:
            return said


class VLLMSampler:
    """A `Sampler` of a model that a vLLM server serves under the name `model`.

    All replies that are wanted are asked for at once, each in a call of its own, so that the
    server's continuous batching sees them together.
    """

    def __init__(self, server: VLLMServer | str, model: str) -> None:
        self.server = VLLMServer(server) if isinstance(server, str) else server
        self.model = model
        self._sampling, self._end = Sampling(), 0
        self._pool: ThreadPoolExecutor | None = None
        self._wanted: set[Future[Reply]] = set()

    def begin(self, sampling: Sampling, end: int, slots: int) -> None:
        """As `Sampler`."""
        self.finish()
        self._sampling, self._end = sampling, end
        self._pool = ThreadPoolExecutor(max(slots, 1), "vllm")

    def submit(self, requests: Sequence[Request]) -> None:
        """As `Sampler`."""
        assert self._pool is not None  # `begin` came first
        self._wanted |= {self._pool.submit(self._reply, request) for request in requests}

    def replies(self) -> list[Reply]:
        """As `Sampler`; raises InvalidConfiguration where the server refuses or is gone."""
        done, self._wanted = wait(self._wanted, return_when=FIRST_COMPLETED)
        return sorted((one.result() for one in done), key=lambda reply: reply.conversation)

    def release(self, conversation: int) -> None:
        """As `Sampler`; the server forgets by itself."""

    def finish(self) -> None:
        """As `Sampler`."""
        for one in self._wanted:
            one.cancel()
        self._wanted = set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _reply(self, request: Request) -> Reply:
        sampling = self._sampling
        found = self.server.post(
            "completions",
            {
                "model": self.model,
                "prompt": request.context.tolist(),
                "max_tokens": request.budget,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": sampling.top_k or -1,
                "seed": request.key % _SEEDS,
                "stop_token_ids": [self._end],
                "logprobs": 0,
                "return_token_ids": True,
            },
        )
        try:
            choice = found["choices"][0]
            ids = [int(token) for token in choice["token_ids"]]
            known = (choice.get("logprobs") or {}).get("token_logprobs") or []
        except (LookupError, TypeError, ValueError, AttributeError):
            raise InvalidConfiguration(
                f"{self.server.url} answered without token_ids: {str(found)[:_TOLD]}; it takes a "
                "vLLM of 0.10.2 or later"
            ) from None
        if self._end in ids:
            ids = ids[: ids.index(self._end) + 1]
        elif choice.get("finish_reason") == "stop" and len(ids) < request.budget:
            ids.append(self._end)  # it was drawn, and not handed out
        log_probs = np.full(len(ids), np.nan, dtype=np.float32)
        told = np.array([np.nan if one is None else one for one in known], dtype=np.float32)
        log_probs[: len(told)] = told[: len(ids)]
        return Reply(request.conversation, np.array(ids, dtype=np.int64), log_probs)


class AdapterUpdates:
    """A callback of the loop: after every iteration the server has the newest adapter.

        updates = AdapterUpdates(server, model, "learner", Path("/shared/adapter"))
        PolicyOptimizer(model, RolloutEngine(..., VLLMSampler(server, "learner"), ...), config,
                        [updates])

    `folder` must be where the server can read it. The server runs with `--enable-lora` and
    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True. Raises InvalidConfiguration for a model without adapters.
    """

    def __init__(self, server: VLLMServer, model: LanguageModel, name: str, folder: Path) -> None:
        if not model.has_adapter:
            raise InvalidConfiguration(
                "a vLLM server takes new weights as a LoRA adapter, and this model has none; load "
                "it with lora=LoRA(rank=16)"
            )
        self.server, self.model, self.name, self.folder = server, model, name, folder
        self._loaded = False
        self.send()

    def __call__(self, row: Mapping[str, float]) -> None:
        """After an iteration."""
        self.send()

    def send(self) -> None:
        """Write the adapter, and have the server read it in place of the one before."""
        self.model.save(self.folder)
        if self._loaded:
            self.server.post("unload_lora_adapter", {"lora_name": self.name})
        place = str(self.folder.resolve())
        self.server.post("load_lora_adapter", {"lora_name": self.name, "lora_path": place})
        self._loaded = True
