"""Hours of conversations in one process: does its memory grow?

    python scripts/soak.py [--minutes 60] [--seed 0] [--every 5]
                           [--parts environments vectors service] [--forget]

Parts take turns of a second each: environments, all ids and modes with hostile agents, and vector
environments in the same way (`hostile_players.py`); and a service in this process, whose clients
reset, step, send nonsense and leave without closing. Memory is read every few seconds. The slope
is that of the second half, when everything has been made once, by least squares over means of ten
readings, with a 95 % interval; it is no proof for what comes slower than the run is long, and
caches of tasks and sentences, which are bounded, fill for hours: how full they are is printed.
With --forget they are emptied before each reading, so that what rises is none of them. Exit code 1
where something was raised that should not be, or the interval lies above 50 MiB an hour.
"""

from __future__ import annotations

import argparse
import functools
import gc
import io
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
from fuzzed_forms import forms
from fuzzing import Tally, held, report
from hostile import Hostile
from hostile_players import player_of

from convgym.calibration.agent_reader import AgentReader
from convgym.envs.text_vectors import TextVectors
from convgym.language.encoders import HashedEncoder
from convgym.language.voice_batch import BatchedVoice

MOST = 50.0
"""MiB an hour that the lower end of the interval may show."""
JOINED = 10
"""Readings that make one point, so that points hardly hang on each other."""
STRETCH = 60
"""Steps of one form at a time."""
ENVIRONMENT = "ConvGym/TechnicalSupport-v0"
"""Whose user's words are read without a model that takes seconds to fit."""


def played(kinds: Sequence[str], seed: int) -> Iterator[Tally]:
    """Stretches of the forms of some kinds, in turn, without end."""
    chosen = [form for form in forms() if form.kind in kinds]
    for number in count():
        rng = random.Random(f"soak-{seed}-{number}")
        yield player_of(chosen[number % len(chosen)]).play(rng, STRETCH)


def served(seed: int) -> Iterator[Tally]:
    """Clients of a service: episodes of a few messages, some of them hostile, without end."""
    from starlette.testclient import TestClient

    from convgym.service.application import create_app
    from convgym.service.json_log import JsonLog
    from convgym.service.keys import KeyRing
    from convgym.service.settings import ServiceSettings
    from convgym.service.start import responder_of

    # What nobody closes is to be closed while the soak lasts.
    settings = ServiceSettings(
        environments=(ENVIRONMENT,), requests_per_s=1e6, burst=10**6, session_idle_s=20.0,
        max_sessions=200, max_sessions_per_key=200,
    )  # fmt: skip
    app = create_app(settings, KeyRing(), responder_of("oracle", settings), JsonLog(Forgetful()))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=True) as client:
        for number in count():
            rng = random.Random(f"serve-{seed}-{number}")
            yield visit(client, rng)


class Forgetful(io.StringIO):
    """A log that nobody keeps."""

    def write(self, text: str) -> int:
        """Count, and forget."""
        return len(text)


def visit(client: Any, rng: random.Random) -> Tally:
    """One client: as many of its answers as it waits for."""
    tally, hostile = Tally(), Hostile(rng, megabytes=0.01)

    def ask(path: str, body: Any) -> Any:
        answer = client.post(path, json=body)
        tally.done += 1
        tally.counts[f"answers {answer.status_code}"] += 1
        # 503 and 504 say that it is too busy, which on a busy machine it may be.
        if answer.status_code >= 500 and answer.status_code not in (503, 504):
            tally.fault(f"the service answers {answer.status_code}", f"{path}: {body!r:.200}")
        return answer

    def text() -> str:
        said = hostile.text(lambda: "Hello, how can I help you?", {"get_line": ["line"]})
        return said.encode("utf-8", "replace").decode()  # no client can send half a character

    begun = ask("/v1/env/reset", {"seed": rng.randrange(2**31)})
    session = begun.json().get("session_id", "") if begun.status_code == 200 else ""
    for _ in range(rng.randrange(6)):
        ask("/v1/env/step", {"session_id": session, "action": text()})
    ask("/v1/reply", {"messages": [{"role": "user", "content": text()}]})
    ask("/v1/chat/completions", {"messages": [{"role": "user", "content": text()}]})
    if session and rng.random() < 0.7:
        ask("/v1/env/close", {"session_id": session})
    return tally


def caches() -> tuple[Counter[str], int]:
    """Entries of each of ConvGym's bounded caches, and how many all of them take at most."""
    entries, most = Counter[str](), 0
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith("convgym."):
            info = one.cache_info()
            if info.maxsize:
                entries[f"{one.__module__}.{one.__qualname__}"] += info.currsize
                most += info.maxsize
    return entries, most


def forget() -> None:
    """Empty ConvGym's caches of tasks, sentences and vectors; the next use fills them again."""
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith("convgym."):
            if one.cache_info().maxsize:
                one.cache_clear()
        elif isinstance(one, TextVectors | HashedEncoder):
            one._places.clear()
        elif isinstance(one, BatchedVoice):
            one._kept.clear()
        elif isinstance(one, AgentReader):
            one._read.clear()


PARTS: dict[str, Callable[[int], Iterator[Tally]]] = {
    "environments": lambda seed: played(("single", "wrapped", "aec", "parallel", "one side"), seed),
    "vectors": lambda seed: played(("vector",), seed),
    "service": served,
}


def slope(readings: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(MiB an hour, half-width of its 95 % interval) of the second half; (seconds, MiB) came."""
    late = readings[len(readings) // 2 :]
    groups = [late[at : at + JOINED] for at in range(0, len(late) - JOINED + 1, JOINED)]
    if len(groups) < 4:
        return math.nan, math.inf
    hours, sizes = np.array(groups).mean(axis=1).T
    hours = hours / 3600
    across = hours - hours.mean()
    rise = float(across @ sizes / (across @ across))
    left = sizes - sizes.mean() - rise * across
    error = math.sqrt(float(left @ left) / (len(groups) - 2) / float(across @ across))
    return rise, _t975(len(groups) - 2) * error


def _t975(freedom: int) -> float:
    """Student's quantile, by the expansion of Abramowitz and Stegun (26.7.5); 2 % off at 2."""
    z = 1.959964
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def soaked(
    parts: Sequence[str], seconds: float, seed: int, every: float, forgets: bool = False
) -> tuple[Tally, list[tuple[float, float]], Counter[str]]:
    """What was done and found, (seconds, MiB) as the time went on, and the caches at half time."""
    total, readings, half = Tally(), [], Counter[str]()
    running = [PARTS[part](seed) for part in parts]
    began = last = time.monotonic()
    try:
        while time.monotonic() - began < seconds:
            for part in running:
                until = time.monotonic() + 1.0
                while time.monotonic() < until:
                    total += next(part)
            if time.monotonic() - last >= every:
                last = time.monotonic()
                if forgets:
                    forget()
                readings.append((last - began, held()))
                if not half and last - began >= seconds / 2:
                    half, _ = caches()
    finally:
        for part in running:
            part.close()  # type: ignore[attr-defined]
    return total, readings, half


def main() -> int:
    """Soak, and print the slope."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two readings")
    parser.add_argument("--parts", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--forget", action="store_true", help="empty the caches before a reading")
    options = parser.parse_args()
    total, readings, half = soaked(
        options.parts, 60 * options.minutes, options.seed, options.every, options.forget
    )
    report(total, "steps and answers", 60 * options.minutes)
    rise, wide = slope(readings)
    sizes = [size for _, size in readings]
    print(
        f"memory {sizes[0]:,.0f} MiB at first, {sizes[len(sizes) // 2]:,.0f} at half time, "
        f"{sizes[-1]:,.0f} at the end; slope {rise:+.1f} MiB an hour "
        f"[{rise - wide:+.1f}, {rise + wide:+.1f}]"
        if sizes
        else "no reading; soak longer, or read oftener"
    )
    entries, most = caches()
    grown = ", ".join(f"{name} {more:+,}" for name, more in (entries - half).most_common(6))
    print(f"caches hold {entries.total():,} entries of at most {most:,}; since half time {grown}")
    return 1 if total.faults or rise - wide > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
