"""The service under load, with clients among it that mean no good.

    python scripts/bench_service.py [--sessions 200] [--interval 10] [--seconds 60]
                                    [--hostile 0.1] [--json out.json]
    python scripts/bench_service.py --language-model --interval 1        ten sessions with a model

A service is started in a process of its own. Good clients play: half of them act, by the planner's
choices; a quarter speak; a quarter are customers of the served oracle, as chats. Each sends a
message every `interval` seconds. Of the sessions a share is hostile: it dawdles, sends too much,
sends nonsense, has no key, asks for others' sessions, or leaves in the middle.

With `--language-model` all good clients are customers of one: of the embedded model, or of a
policy file of yours. What they say is what the environment's own customers say to its oracle, from
seed to seed; what they are answered is what the model says alone to the same history.

Every answer that a good client gets is compared, field by field, with the same episode played in
this process afterwards. Latencies are of the good clients' messages, the time of this process
included; memory is what the service says of itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import convgym  # noqa: F401  registers the environments
from convgym.cli.policies import saved_policy
from convgym.policies.roster import ladder
from convgym.service.plain_values import plain
from convgym.service.responders import Said
from convgym.service.settings import ServiceSettings
from convgym.service.start import responder_of
from convgym.simulator import policy_of, scripted_agents

ENVIRONMENTS = (
    "ConvGym/TechnicalSupport-v0", "ConvGym/CustomerService-v0", "ConvGym/Sales-v0",
)  # fmt: skip
"""The first is the oracle's."""
LINES = (
    "Hello, how can I help you?", "May I have your e-mail address, please?",
    '<tool_call>{"name": "find_customer", "arguments": {"email": "a@example.com"}}</tool_call>',
    "I am sorry, that is not possible.", "<tool_call>{not json</tool_call>", "🙂 Is that all?",
)  # fmt: skip
WORDS = (
    "Hello, it does not work.", "My phone number is 0700000000.", "The light is red.", "Yes.",
    "I have done that.", "It still does not work.", "No, thank you.",
)  # fmt: skip
SPOKEN = "ConvGym/OneRequest-v0"
"""Where the embedded model speaks."""
FIELDS = ("observation", "reward", "terminated", "truncated", "info")
EPISODE = 12
"""Messages of a client in one episode, at most."""


@dataclass(frozen=True)
class Served:
    """What the service is started with."""

    policy: str = "oracle"
    environments: tuple[str, ...] = ENVIRONMENTS
    """The first is the policy's."""
    customers: dict[int, list[str]] = field(default_factory=dict)
    """By the seeds of their tasks what customers say; empty where anything does."""

    def customer(self, rng: random.Random) -> tuple[int, list[str]]:
        """A seed, and what is said."""
        if self.customers:
            return rng.choice(list(self.customers.items()))
        return rng.randrange(2**40), [rng.choice(WORDS) for _ in range(EPISODE)]


def customer_words(env_id: str, seed: int) -> list[str]:
    """What the customer of a seed's task says to the oracle."""
    env = gym.make(env_id, disable_env_checker=True, observation="dict", action="text")
    oracle = policy_of(scripted_agents(env)["oracle"](), env)
    observation, info = env.reset(seed=seed)
    oracle.reset(seed)
    said, ended = [str(observation["message"])], False
    while not ended and len(said) < EPISODE:
        action, _ = oracle.predict(observation, action_masks=info.get("action_mask"))
        observation, _, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
        if observation["message"] and not ended:
            said.append(str(observation["message"]))
    env.close()
    return said


def embedded_policy(folder: Path) -> str:
    """The model that comes with ConvGym, as a policy file, as `convgym train` would begin it."""
    from trainers.llm.embedded.folder import embedded_folder
    from trainers.llm.embedded.tuned import MODEL, SAMPLING
    from trainers.llm.language_model import LanguageModel
    from trainers.llm.language_policy import LanguagePolicy
    from trainers.llm.sampling import Sampling

    model = LanguageModel.load(embedded_folder())
    path = folder / "embedded.zip"
    LanguagePolicy(model, Sampling(**SAMPLING), system="", origin=MODEL).save(path)
    return str(path)


# A client of HTTP that is fast enough to load a server from the same machine


class Connection:
    """One connection, kept alive."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """(status, JSON value); a connection that was closed while idle is opened again."""
        try:
            return await self._ask(path, body)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.close()
            return await self._ask(path, body)

    async def _ask(self, path: str, body: Any) -> tuple[int, Any]:
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(request(path, body, self._key))
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status, length = int(head[9:12]), int(head.partition("content-length:")[2].split()[0])
        content = await self._reader.readexactly(length)
        return status, json.loads(content) if content.startswith(b"{") else content.decode()

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def request(path: str, body: Any, key: str) -> bytes:
    """One request as bytes."""
    content = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


# Good clients


@dataclass
class Episode:
    """What a client sent and was answered, to be compared later."""

    kind: str
    env_id: str
    seed: int
    sent: list[Any] = field(default_factory=list)
    received: list[Any] = field(default_factory=list)


@dataclass
class Load:
    """What all clients share, and what came of it."""

    port: int
    key: str
    interval: float
    until: float
    served: Served = Served()
    latencies: list[float] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    hostile: Counter[str] = field(default_factory=Counter)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.until

    async def message(self, line: Connection, path: str, body: Any) -> Any:
        """One message of a good client, timed, in its rhythm; None where it was refused."""
        begun = time.perf_counter()
        status, answer = await line.ask(path, body)
        taken = time.perf_counter() - begun
        self.latencies.append(taken)
        if status != 200:
            self.wrong.append(f"{path} answered {status}: {str(answer)[:120]}")
        await asyncio.sleep(max(0.0, self.interval - taken))
        return answer if status == 200 else None


KEYWORDS = {
    "act": {"observation": "features", "action": "act"},
    "text": {"observation": "message", "action": "text"},
}


async def plays(load: Load, number: int, kind: str) -> None:
    """A client that is the agent of one episode after another."""
    rng, line = random.Random(number), Connection(load.port, load.key)
    while not load.over:
        env_id = rng.choice(ENVIRONMENTS)
        episode = Episode(kind, env_id, rng.randrange(2**40))
        load.episodes.append(episode)
        policy = planner(env_id)
        policy.reset(episode.seed)
        body = {"env_id": env_id, "keywords": KEYWORDS[kind], "seed": episode.seed}
        answer = await load.message(line, "/v1/env/reset", body)
        while answer is not None:
            episode.received.append([answer[name] for name in FIELDS])
            ended = answer["terminated"] or answer["truncated"]
            if ended or load.over or len(episode.sent) == EPISODE:
                await line.ask("/v1/env/close", {"session_id": answer["session_id"]})
                break
            action = acted(policy, answer) if kind == "act" else rng.choice(LINES)
            episode.sent.append(action)
            body = {"session_id": answer["session_id"], "action": action}
            answer = await load.message(line, "/v1/env/step", body)
    line.close()


def planner(env_id: str) -> Any:
    """The domain's scripted planner."""
    domain = env_id.partition("/")[2].partition("-")[0]
    name = {"TechnicalSupport": "technical-support", "Sales": "sales"}.get(domain)
    return ladder(name or "customer-service")["planner"]()


def acted(policy: Any, answer: Any) -> int:
    """Its choice from what was answered."""
    features = np.array(answer["observation"], np.float32)
    mask = np.array(answer["info"]["action_mask"], np.int8)
    return int(policy.predict(features, action_masks=mask)[0])


async def chats(load: Load, number: int) -> None:
    """A client that is a customer of the policy."""
    rng, line = random.Random(number), Connection(load.port, load.key)
    while not load.over:
        seed, said_by_customer = load.served.customer(rng)
        episode = Episode("chat", load.served.environments[0], seed)
        load.episodes.append(episode)
        history: list[dict[str, str]] = []
        for words in said_by_customer:
            if load.over:
                break
            history.append({"role": "user", "content": words})
            body = {"messages": history, "seed": episode.seed}
            answer = await load.message(line, "/v1/chat/completions", body)
            if answer is None:
                break
            said, beside = answer["choices"][0]["message"]["content"], answer["convgym"]
            episode.sent.append(words)
            episode.received.append([said, beside["tool_calls"], beside["ended"]])
            history.append({"role": "assistant", "content": said})
            if beside["ended"]:
                break
    line.close()


# Hostile clients


async def dawdles(load: Load, rng: random.Random) -> str:
    """Sends a request a byte at a time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    for byte in request("/v1/reply", {"history": []}, load.key):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.2)
        if reader.at_eof() or load.over:
            break
    return await answered(reader, writer)


async def sends_too_much(load: Load, rng: random.Random) -> str:
    """Says that it is long, or is and does not say so."""
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    length = rng.choice(["Content-Length: 50000000", "Transfer-Encoding: chunked"])
    writer.write(
        f"POST /v1/reply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {load.key}\r\n"
        f"{length}\r\n\r\n".encode()
    )
    for _ in range(40):
        writer.write((b"10000\r\n" if "chunked" in length else b"") + b"x" * 65536 + b"\r\n")
        await writer.drain()
    return await answered(reader, writer)


async def sends_nonsense(load: Load, rng: random.Random) -> str:
    """Bytes that are no HTTP, no JSON, or too deep."""
    reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
    sent = rng.choice([
        rng.randbytes(500), b"GET / HTTP/7.7\r\n\r\n", b"\x16\x03\x01" + rng.randbytes(200),
        raw_post(load.key, b"[" * 100_000), raw_post(load.key, rng.randbytes(300)),
        raw_post(load.key, b'{"history": [{"role": "user", "content": "\\ud800"}]}'),
    ])  # fmt: skip
    writer.write(sent)
    await writer.drain()
    return await answered(reader, writer)


def raw_post(key: str, content: bytes) -> bytes:
    """A request with a body of any bytes."""
    head = (
        f"POST /v1/reply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: "
        f"application/json\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def has_no_key(load: Load, rng: random.Random) -> str:
    """Guesses."""
    line = Connection(load.port, rng.choice(["", "x" * 400, secrets.token_urlsafe()]))
    status, _ = await line.ask("/v1/env/reset", {})
    line.close()
    return f"{status}"


async def asks_for_others(load: Load, rng: random.Random) -> str:
    """Steps sessions that are not its own, and asks for what is hidden."""
    line = Connection(load.port, load.key)
    path, body = rng.choice([
        ("/v1/env/step", {"session_id": secrets.token_urlsafe(24), "action": 1}),
        ("/v1/env/reset", {"keywords": {"privileged": True}}),
        ("/v1/env/reset", {"side": "user", "seed": 7}),
        ("/v1/env/reset", {"keywords": {"user": "/etc/passwd"}}),
    ])  # fmt: skip
    status, _ = await line.ask(path, body)
    line.close()
    return f"{status}"


async def leaves(load: Load, rng: random.Random) -> str:
    """Opens a session, sends half a step or a whole one, and is gone."""
    line = Connection(load.port, load.key)
    status, answer = await line.ask("/v1/env/reset", {})
    line.close()
    if status != 200:
        return f"{status}"
    _, writer = await asyncio.open_connection("127.0.0.1", load.port)
    step = request("/v1/env/step", {"session_id": answer["session_id"], "action": "Hi"}, load.key)
    writer.write(step[: rng.choice([len(step) // 2, len(step)])])
    await writer.drain()
    writer.transport.abort()
    return "gone"


HOSTILE: dict[str, Callable[[Load, random.Random], Awaitable[str]]] = {
    "slow": dawdles, "oversized": sends_too_much, "malformed": sends_nonsense,
    "unauthorised": has_no_key, "prying": asks_for_others, "disconnecting": leaves,
}  # fmt: skip


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """The status of what comes back, or that the connection was closed."""
    try:
        head = await asyncio.wait_for(reader.read(65536), 30.0)
        return head[9:12].decode("latin-1") if head.startswith(b"HTTP") else "closed"
    except TimeoutError:
        return "left waiting"
    finally:
        writer.close()


async def is_hostile(load: Load, number: int) -> None:
    """One after the other, a little faster than the good ones."""
    rng = random.Random(number)
    names = list(HOSTILE)
    turn = number
    while not load.over:
        name = names[turn % len(names)]
        turn += 1
        try:
            outcome = await HOSTILE[name](load, rng)
        except (OSError, asyncio.IncompleteReadError):
            outcome = "closed"
        load.hostile[f"{name}: {outcome}"] += 1
        await asyncio.sleep(load.interval / 4 * rng.random())


# Comparison


def mistakes(episodes: list[Episode], served: Served) -> tuple[int, list[str]]:
    """How many answers were compared, and those that are not what they must be."""
    compared, found = 0, []
    settings = ServiceSettings(environments=served.environments)
    responder = responder_of(served.policy, settings, saved_policy)
    for episode in episodes:
        expected: list[Any]
        if episode.kind == "chat":
            expected, history = [], []
            for words in episode.sent:
                history.append(Said("user", words))
                answer = responder.reply(history, episode.seed, {})
                calls = [{"name": c.name, "arguments": dict(c.arguments)} for c in answer.calls]
                expected.append([answer.text, calls, answer.ended])
                history.append(Said("assistant", answer.text))
        else:
            expected = in_process(episode)
        expected = json.loads(json.dumps(expected))
        for turn, (mine, theirs) in enumerate(zip(expected, episode.received, strict=False)):
            compared += 1
            if mine != theirs:
                found.append(f"{episode.kind} {episode.env_id} seed {episode.seed} turn {turn}")
    return compared, found


def in_process(episode: Episode) -> list[Any]:
    """The same episode, played here."""
    env = gym.make(episode.env_id, disable_env_checker=True, **KEYWORDS[episode.kind])
    observation, info = env.reset(seed=episode.seed)
    trace = [[plain(observation), 0.0, False, False, plain(info)]]
    for action in episode.sent[: len(episode.received) - 1]:
        trace.append([plain(one) for one in env.step(action)])
    return trace


# The run


def started(
    folder: Path, keys: dict[str, str], sessions: int, served: Served
) -> tuple[Any, int]:
    """The service's process and its port."""
    path = folder / "keys.txt"
    path.write_text("".join(f"{name} {key}\n" for name, key in keys.items()), encoding="utf-8")
    path.chmod(0o600)
    command = [sys.executable, "-m", "convgym", "serve", "--policy", served.policy, "--port", "0",
               "--api-key-file", str(path), "--max-sessions", str(4 * sessions + 100),
               "--session-idle", "60", "--rate", str(max(100, sessions)),
               "--log-conversations", str(folder / "talk.jsonl")]  # fmt: skip
    command += [part for one in served.environments for part in ("--env", one)]
    log = (folder / "service.log").open("w+", encoding="utf-8")
    process = subprocess.Popen(
        command, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True
    )
    until = time.monotonic() + 300.0
    while time.monotonic() < until and process.poll() is None:
        events = [json.loads(line) for line in (folder / "service.log").read_text().splitlines()]
        ports = [event["port"] for event in events if event["event"] == "listening"]
        if ports and any(event["event"] == "started" for event in events):
            return process, ports[0]
        time.sleep(0.2)
    raise SystemExit((folder / "service.log").read_text())


async def watched(port: int, key: str, until: float, seen: list[tuple[float, float, int]]) -> None:
    """Memory (MB) and open sessions, every few seconds."""
    line, begun = Connection(port, key), time.monotonic()
    while time.monotonic() < until:
        _, text = await line.ask("/metrics")
        told = dict(one.rsplit(" ", 1) for one in text.splitlines() if not one.startswith("#"))
        seen.append((
            time.monotonic() - begun, float(told["convgym_resident_bytes"]) / 1e6,
            int(told["convgym_sessions"]),
        ))  # fmt: skip
        await asyncio.sleep(2.0)
    line.close()


async def loaded(
    port: int, keys: dict[str, str], asked: Any, served: Served
) -> tuple[Load, Load, list[Any]]:
    """Let all clients loose."""
    until = time.monotonic() + asked.seconds
    good = Load(port, keys["good"], asked.interval, until, served)
    bad = Load(port, keys["hostile"], asked.interval, until, served)
    hostile = round(asked.sessions * asked.hostile)
    tasks, seen = [], list[Any]()

    async def later(client: Awaitable[None], wait: float) -> None:
        await asyncio.sleep(wait)
        await client

    for number in range(asked.sessions):
        if number < hostile:
            client = is_hostile(bad, number)
        elif served.customers or number % 4 == 3:
            client = chats(good, number)
        else:
            client = plays(good, number, "text" if number % 4 == 2 else "act")
        tasks.append(later(client, asked.interval * number / asked.sessions))
    results = await asyncio.gather(
        watched(port, keys["good"], until, seen), *tasks, return_exceptions=True
    )
    good.wrong += [f"a client raised {error!r}" for error in results if error is not None]
    return good, bad, seen


def main(given: list[str] | None = None) -> int:
    """Load, compare, print; 1 where something was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, help="200, or 10 with a language model")
    parser.add_argument("--interval", type=float, default=10.0, help="seconds between messages")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--hostile", type=float, help="their share; 0.1, or 0 with a model")
    parser.add_argument(
        "--language-model", nargs="?", const="embedded", metavar="POLICY",
        help="a policy file of a language model; the embedded one where none is named",
    )  # fmt: skip
    parser.add_argument("--env", default=SPOKEN, help="where the language model speaks")
    parser.add_argument("--json", type=Path, help="write the numbers here")
    asked = parser.parse_args(given)
    speaks = asked.language_model is not None
    asked.sessions = asked.sessions or (10 if speaks else 200)
    asked.hostile = (0.0 if speaks else 0.1) if asked.hostile is None else asked.hostile

    keys = {name: secrets.token_urlsafe() for name in ("good", "hostile")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        served = Served()
        if speaks:
            named = asked.language_model
            path = embedded_policy(folder) if named == "embedded" else named
            seeds = range(4 * asked.sessions)
            customers = {seed: customer_words(asked.env, seed) for seed in seeds}
            served = Served(path, (asked.env,), customers)
        process, port = started(folder, keys, asked.sessions, served)
        good, bad, seen = asyncio.run(loaded(port, keys, asked, served))
        process.send_signal(signal.SIGTERM)
        status = process.wait(60.0)
        log = (folder / "service.log").read_text(encoding="utf-8")
        talk = (folder / "talk.jsonl").read_text(encoding="utf-8")
        compared, wrong = mistakes(good.episodes, served)
    raised = sum('"event": "raised"' in line for line in log.splitlines())
    shown = sum(key in log or key in talk for key in keys.values())
    wrong = good.wrong + wrong
    p50, p99 = (1000 * float(np.percentile(good.latencies, q)) for q in (50, 99))
    # The first third fills caches and opens sessions; after it nothing may grow.
    settled = [row for row in seen if row[0] >= asked.seconds / 3]
    numbers = {
        "sessions": asked.sessions, "hostile": round(asked.sessions * asked.hostile),
        "policy": Path(served.policy).name, "interval_s": asked.interval, "seconds": asked.seconds,
        "messages": len(good.latencies), "compared": compared, "wrong": len(wrong),
        "exit_status": status, "raised": raised, "keys_in_log": shown,
        "p50_ms": round(p50, 1), "p99_ms": round(p99, 1),
        "max_ms": round(1000 * max(good.latencies), 1),
        "memory_mb": {
            "start": round(seen[0][1], 1), "settled": round(settled[0][1], 1),
            "end": round(seen[-1][1], 1), "most": round(max(row[1] for row in seen), 1),
            "by_minute": [round(row[1], 1) for row in seen[::30]],
        },
        "open_sessions_at_end": seen[-1][2], "conversations_logged": talk.count("\n"),
        "hostile_outcomes": dict(sorted(bad.hostile.items())),
    }  # fmt: skip
    print(json.dumps(numbers, indent=1))
    for one in wrong[:10]:
        print("WRONG:", one, file=sys.stderr)
    if asked.json is not None:
        asked.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    return int(bool(wrong or status or raised or shown))


if __name__ == "__main__":
    sys.exit(main())
