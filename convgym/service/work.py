"""Steps and replies in threads: so many at once, fair between keys, none waited for too long.

    request ─► the key's own turn (half of the threads) ─► a thread ─► result
                     │ too many wait: 503                     │ too slow: 504; the thread goes on

A thread cannot be stopped from outside, so that what was too slow still holds its place until it
ends; the others go on in the places that are left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from convgym.service.problems import Problem

T = TypeVar("T")


class Work:
    """A bounded pool of threads, shared by all keys."""

    def __init__(self, threads: int, max_waiting: int, timeout_s: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="convgym-work")
        self._places = asyncio.Semaphore(threads)
        self._each = max(1, threads // 2)
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._max_waiting, self._timeout = max_waiting, timeout_s
        self.waiting, self.running = 0, 0

    async def run(
        self, owner: str, function: Callable[[], T], unused: Callable[[], None] = lambda: None
    ) -> T:
        """What `function` returns or raises, called in a thread.

        Raises Problem 503 where too many wait, and 504 where it takes too long. Where it comes to
        no call at all, `unused` is called.
        """
        try:
            until, turn = await self._begin(owner)
        except BaseException:
            unused()
            raise
        self.running += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, function)
        # Freed when the thread is done with it, however long whoever asked has been gone.
        future.add_done_callback(lambda _: self._done(turn))
        try:
            async with asyncio.timeout(max(0.001, until - time.monotonic())):
                return await asyncio.shield(future)
        except TimeoutError:
            if future.done():
                return future.result()
            future.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise self._too_slow() from None

    async def _begin(self, owner: str) -> tuple[float, asyncio.Semaphore]:
        """Wait for a place; returns until when the call has time, and the turn to give back."""
        if self.waiting >= self._max_waiting:
            raise Problem(503, "busy", "too many requests wait here; try again in a second",
                          {"Retry-After": "1"})  # fmt: skip
        until = time.monotonic() + self._timeout
        turn = self._turns.setdefault(owner, asyncio.Semaphore(self._each))
        self.waiting += 1
        try:
            async with asyncio.timeout(self._timeout):
                await turn.acquire()
                try:
                    await self._places.acquire()
                except BaseException:
                    turn.release()
                    raise
        except TimeoutError:
            raise self._too_slow() from None
        finally:
            self.waiting -= 1
        return until, turn

    def close(self) -> None:
        """No more work; what runs is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, turn: asyncio.Semaphore) -> None:
        self.running -= 1
        self._places.release()
        turn.release()

    def _too_slow(self) -> Problem:
        return Problem(504, "too_slow", f"this took longer than {self._timeout:g} s")
