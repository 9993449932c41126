"""A language model behind an OpenAI-compatible chat-completions endpoint.

    complete ─► thread pool ─► breaker ─► attempt, once more? ─► reply ─► Completion
                at most        open:      one deadline over all of it
                `concurrency`  fail now   (connections.py)

The other side may be slow, dead or rude: nothing it does raises, and no word of it gets into
an error. Needs the standard library only. Knows nothing of users or writers.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import SplitResult, urlsplit

from convgym.errors import InvalidConfiguration
from convgym.language.breaker import CircuitBreaker
from convgym.language.connections import Connection, Connections
from convgym.language.models import ChatMessage, Completion, check_batch, completion_of

FIRST_PAUSE = 0.1
"""Seconds before the first retry; doubled before each further one."""
DEAD = {"timeout", "refused connection", "unreachable", "connection closed", "tls failure"}
"""Errors which, like `http 5xx`, say that an endpoint is not there. All others say it is."""
AGAIN = {"refused connection", "unreachable", "connection closed"}
"""Errors which, like `http 5xx` and `http 429`, are worth a retry."""
SEEDS = 2**31
"""Seeds are sent modulo this: servers differ in how wide an integer they read."""


@dataclass(frozen=True, repr=False)
class EndpointModel:
    """Chat completions from any OpenAI-compatible server, many at a time.

        with EndpointModel("http://localhost:8000/v1", "my-model") as model:
            model.complete([[ChatMessage("user", "Hello.")]], seeds=[7])

    The calls of one batch run side by side; results come in the order of the prompts. A call
    ends within `timeout`, so a batch of n ends within timeout × ⌈n / concurrency⌉.

    After `breaker_failures` calls in a row that found no working server (no connection, timeout,
    5xx), every call fails at once with `circuit open` for `breaker_cooldown` seconds. Then one
    call is let through as a probe: an answer closes the circuit, another failure opens it again.

    Redirects are not followed, proxies not used, and a certificate must be valid (the variable
    `SSL_CERT_FILE` names further authorities). The body decides whether a reply is JSON, not
    its content type. Two models with the same settings are equal.

    Copies, pickles and forked processes start without threads, connections or a failure count:
    bounds hold for one object in one process.
    """

    url: str
    """`http://host:8000/v1`, with or without `/chat/completions`; a bare host means `/v1`."""
    model: str
    """The name by which the server knows the model."""
    api_key: str | None = None
    """Sent as a bearer token. A pickle of this object holds it; `api_key_variable` avoids that."""
    timeout: float = 10.0
    """Seconds for one call, retries included, counted from when it leaves the queue."""
    retries: int = 1
    """Further attempts after a connection error, 5xx or 429, as far as the timeout allows."""
    concurrency: int = 64
    """Calls at the same time, each on a connection of its own that is kept alive."""
    temperature: float | None = 0.7
    """Sent as `temperature`; None leaves it to the server."""
    max_tokens: int | None = 256
    """Sent as `max_tokens`; None leaves it to the server."""
    most_bytes: int = 262_144
    """A longer reply is the error `reply too large`, and is not read to its end."""
    breaker_failures: int = 5
    """Failed calls in a row that open the circuit."""
    breaker_cooldown: float = 30.0
    """Seconds for which the circuit stays open."""
    api_key_variable: str | None = None
    """Name of the environment variable that holds the key, read at each call."""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further fields of the request, such as `{"top_p": 0.9}`."""
    clock: Callable[[], float] = field(default=time.monotonic, compare=False)
    """Seconds, for the breaker alone."""
    _runtimes: dict[int, _Runtime] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        _check_url(self.url)
        _check(isinstance(self.model, str) and self.model, "model", self.model, "a name")
        _check_numbers(self)
        _check_body(self)
        if self.api_key is not None and self.api_key_variable is not None:
            raise InvalidConfiguration(
                "both api_key and api_key_variable are given; give one of them."
            )
        if (self.api_key is not None or self.api_key_variable) and not self._headers():
            raise InvalidConfiguration(  # names no variable: it may be the key, by mistake
                "the API key, or the environment variable that api_key_variable names, is "
                "missing, empty or no header can hold it; give printable ASCII without spaces."
            )

    def complete(
        self, prompts: Sequence[Sequence[ChatMessage]], seeds: Sequence[int]
    ) -> list[Completion]:
        """See `ChatModel.complete`."""
        check_batch(prompts, seeds)
        bodies = [self._body(prompt, seed) for prompt, seed in zip(prompts, seeds, strict=True)]
        if not bodies:
            return []
        runtime = self._runtime()
        calls: list[Future[Completion]] = []
        try:
            for body in bodies:
                calls.append(runtime.pool.submit(self._call, runtime, body))
            return [call.result() for call in calls]
        except (RuntimeError, CancelledError):  # closed by another thread, or at exit
            return [_finished(call) for call in calls] + [_CLOSED] * (len(bodies) - len(calls))
        finally:
            for call in calls:
                call.cancel()

    def close(self) -> None:
        """End the threads and connections; a later call starts new ones."""
        runtime = self._runtimes.pop(os.getpid(), None)
        if runtime is not None:
            runtime.close()

    def __enter__(self) -> EndpointModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EndpointModel({urlsplit(self.url)._replace(query='').geturl()!r}, {self.model!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.init}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _runtimes={})

    def _runtime(self) -> _Runtime:
        """This process's threads and connections. No lock: one could be held at a fork."""
        process = os.getpid()
        runtime = self._runtimes.get(process)
        if runtime is None:
            for other in set(self._runtimes) - {process}:
                self._runtimes.pop(other, None)
            runtime = self._runtimes.setdefault(process, _Runtime(self))
        return runtime

    def _body(self, prompt: Sequence[ChatMessage], seed: int) -> bytes:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in prompt],
            "seed": int(seed) % SEEDS,
            "stream": False,
        }
        if self.temperature is not None:
            request["temperature"] = self.temperature
        if self.max_tokens is not None:
            request["max_tokens"] = self.max_tokens
        return json.dumps({**request, **self.extra}).encode()

    def _headers(self) -> dict[str, str]:
        """Nothing where a key is wanted and there is none that can be sent."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key = self.api_key
        if self.api_key_variable:
            key = os.environ.get(self.api_key_variable, "")
        if key is None:
            return headers
        if not isinstance(key, str) or not key.isascii() or not key.isprintable() or " " in key:
            return {}
        return {**headers, "Authorization": f"Bearer {key}"} if key else {}

    def _call(self, runtime: _Runtime, body: bytes) -> Completion:
        """One prompt, in a thread of the pool."""
        deadline = time.monotonic() + self.timeout
        headers = self._headers()
        if not headers:
            return Completion("", "no api key")
        ticket = runtime.breaker.admit()
        if not ticket:
            return Completion("", "circuit open")
        dead = True
        try:
            result = self._attempts(runtime, body, headers, deadline)
            dead = result.error in DEAD or result.error.startswith("http 5")
        finally:
            runtime.breaker.report(ticket, alive=not dead)
        return result

    def _attempts(
        self, runtime: _Runtime, body: bytes, headers: Mapping[str, str], deadline: float
    ) -> Completion:
        pause = FIRST_PAUSE
        for left in range(self.retries, -1, -1):
            result, wait = self._attempt(runtime, body, headers, deadline)
            again = result.error in AGAIN or result.error.startswith(("http 5", "http 429"))
            wait = max(wait, pause)
            late = time.monotonic() + wait >= deadline
            if not again or not left or late or not runtime.breaker.closed:
                break
            time.sleep(wait)
            pause *= 2
        return result

    def _attempt(
        self, runtime: _Runtime, body: bytes, headers: Mapping[str, str], deadline: float
    ) -> tuple[Completion, float]:
        """A completion, and how many seconds the server asks to wait before a retry."""
        connection = runtime.connections.take()
        used = connection.sock is not None
        result, wait = self._exchange(runtime, connection, body, headers, deadline)
        if used and result.error == "connection closed":  # as it was sent; not the call's fault
            connection = runtime.connections.new()
            result, wait = self._exchange(runtime, connection, body, headers, deadline)
        return result, wait

    def _exchange(
        self,
        runtime: _Runtime,
        connection: Connection,
        body: bytes,
        headers: Mapping[str, str],
        deadline: float,
    ) -> tuple[Completion, float]:
        keep = False
        try:
            response = connection.post(body, headers, deadline)
            if response.status != 200:
                return Completion("", f"http {response.status:d}"), _retry_after(response)
            payload, error = _read(response, self.most_bytes)
            keep = not error
            return Completion("", error) if error else _parsed(payload), 0.0
        except (OSError, http.client.HTTPException, ValueError) as failure:
            return Completion("", _reason(failure)), 0.0
        finally:
            if keep:
                runtime.connections.keep(connection)
            else:
                connection.close()


_CLOSED = Completion("", "closed")


def _finished(call: Future[Completion]) -> Completion:
    try:
        return call.result()
    except (RuntimeError, CancelledError):
        return _CLOSED


def _read(response: http.client.HTTPResponse, most: int) -> tuple[bytes, str]:
    """A body, or what is wrong with it."""
    if response.length is not None and response.length > most:
        return b"", "reply too large"
    payload = response.read(most + 1)
    if len(payload) > most:
        return b"", "reply too large"
    if response.length:  # fewer bytes than announced
        return b"", "connection closed"
    return payload, ""


def _parsed(payload: bytes) -> Completion:
    """`choices[0].message.content`."""
    try:
        content = json.loads(payload)["choices"][0]["message"]["content"]
        return completion_of("" if content is None else content)
    except (ValueError, RecursionError, LookupError, TypeError):
        return Completion("", "malformed reply")


def _retry_after(response: http.client.HTTPResponse) -> float:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdecimal() and len(value) < 7 else 0.0


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "refused connection"
    if isinstance(error, ConnectionError | http.client.IncompleteRead | ssl.SSLEOFError):
        return "connection closed"
    if isinstance(error, ssl.SSLError):
        return "tls failure"
    if isinstance(error, OSError | UnicodeError):  # a host that is no name fails to encode
        return "unreachable"
    return "malformed reply"


class _Runtime:
    """What one process holds for one `EndpointModel`."""

    def __init__(self, settings: EndpointModel) -> None:
        parts = urlsplit(settings.url)
        self.connections = Connections(parts, _path(parts))
        self.pool = ThreadPoolExecutor(settings.concurrency, "convgym-endpoint")
        self.breaker = CircuitBreaker(
            settings.breaker_failures, settings.breaker_cooldown, settings.clock
        )

    def close(self) -> None:
        self.connections.close()
        self.pool.shutdown(wait=True, cancel_futures=True)


def _path(parts: SplitResult) -> str:
    path = parts.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        path = (path or "/v1") + "/chat/completions"
    return f"{path}?{parts.query}" if parts.query else path


# Settings. What is wrong is quoted, except a URL or a key.


def _check(good: object, name: str, value: object, allowed: str) -> None:
    if not good:
        raise InvalidConfiguration(f"{name} is {str(value)[:40]!r}; it takes {allowed}.")


def _check_url(url: object) -> None:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or not str(url).isascii() or not str(url).isprintable() or " " in str(url):
        raise InvalidConfiguration(
            "the url of a language model is none; give one such as http://localhost:8000/v1."
        )
    if "@" in parts.netloc:
        raise InvalidConfiguration(
            "the url of a language model holds a name or password; give the key as api_key."
        )


def _check_numbers(settings: EndpointModel) -> None:
    for name in ("timeout", "breaker_cooldown"):
        value = getattr(settings, name)
        good = isinstance(value, int | float) and 0 < value <= 86_400
        _check(good, name, value, "more than 0 and at most 86400 seconds")
    for name, least, most in (
        ("retries", 0, 10), ("concurrency", 1, 1024), ("most_bytes", 1, 2**30),
        ("breaker_failures", 1, 10**6),
    ):  # fmt: skip
        value = getattr(settings, name)
        good = isinstance(value, int) and least <= value <= most
        _check(good, name, value, f"a whole number from {least} to {most}")
    _check(callable(settings.clock), "clock", settings.clock, "a callable")


def _check_body(settings: EndpointModel) -> None:
    degree, most = settings.temperature, settings.max_tokens
    good = degree is None or (isinstance(degree, int | float) and 0 <= degree <= 100)
    _check(good, "temperature", degree, "None or 0 to 100")
    good = most is None or (isinstance(most, int) and most > 0)
    _check(good, "max_tokens", most, "None or a whole number above 0")
    reserved = {"messages", "seed", "stream", "model"} & set(settings.extra)
    _check(not reserved, "extra", sorted(reserved), "fields that ConvGym does not set itself")
    try:
        json.dumps(dict(settings.extra))
    except (TypeError, ValueError):
        raise InvalidConfiguration("extra holds what JSON cannot; give plain values.") from None
