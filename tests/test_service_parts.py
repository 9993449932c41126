"""The parts of the service that know no HTTP: keys, buckets, counts, sessions, threads, logs."""

import asyncio
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from convgym.service.chat import history_of, pieces
from convgym.service.keys import KeyRing, bearer
from convgym.service.metrics import SECONDS, Metrics
from convgym.service.problems import Problem
from convgym.service.rate_limit import TokenBuckets
from convgym.service.responders import Said, exchanges
from convgym.service.sessions import Sessions
from convgym.service.settings import ServiceSettings, is_loopback
from convgym.service.work import Work

KEY, OTHER = "a-key-of-sixteen-or-more", "another-key-of-that-length"


# Keys


def test_a_key_lets_in_and_another_does_not():
    ring = KeyRing([("team", KEY), ("guest", OTHER)])
    assert (ring.owner(KEY), ring.owner(OTHER)) == ("team", "guest")
    assert [ring.owner(wrong) for wrong in ("", None, KEY + "x", KEY[:-1], "ключ")] == [None] * 5


def test_without_keys_everybody_is_local():
    assert KeyRing().owner(None) == KeyRing().owner("anything") == "local"


def test_a_ring_holds_no_key():
    ring = KeyRing([("team", KEY)])
    assert KEY not in repr(vars(ring)) and KEY.encode() not in repr(vars(ring)).encode()


def test_keys_are_read_from_a_file(tmp_path):
    path = tmp_path / "keys.txt"
    path.write_text(f"\ufeff# mine\n{KEY}\n\n  # theirs\nguest {OTHER}\n", encoding="utf-8")
    ring = KeyRing.read(path)
    assert (ring.owner(KEY), ring.owner(OTHER)) == ("key-1", "guest")


@pytest.mark.parametrize("text", ["", "# none\n", "short\n", f"{KEY}\n{KEY}\n", f"a b {KEY}\n",
                                  f"{KEY} guest\n", f"{KEY} {OTHER}\n"])  # fmt: skip
def test_a_key_file_that_is_wrong_is_one_sentence_without_the_key(tmp_path, text):
    path = tmp_path / "keys.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfiguration) as told:
        KeyRing.read(path)
    assert KEY not in str(told.value)


def test_a_key_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        KeyRing.read(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("header", "key"),
    [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Basic abc", None), ("Bearer", None),
     ("", None), (None, None)],
)  # fmt: skip
def test_the_key_of_a_header(header, key):
    assert bearer(header) == key


# Settings


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("localhost.example.com", False)],
)  # fmt: skip
def test_loopback(host, local):
    assert is_loopback(host) is local


@pytest.mark.parametrize(
    "wrong",
    [{"port": -1}, {"port": 65536}, {"threads": 0}, {"requests_per_s": 0.0}, {"environments": ()},
     {"host": ""}, {"keywords": {"privileged": True}}],
)  # fmt: skip
def test_settings_that_are_not_allowed(wrong):
    with pytest.raises(InvalidConfiguration):
        ServiceSettings(**wrong)


# Rate


@given(
    st.floats(0.5, 50.0), st.integers(1, 20), st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60)
)
def test_no_window_ever_holds_more_than_burst_and_rate_allow(rate, burst, pauses):
    now = [0.0]
    buckets = TokenBuckets(rate, burst, clock=lambda: now[0])
    taken = []
    for pause in pauses:
        now[0] += pause
        wait = buckets.take("one")
        assert wait >= 0.0
        if wait == 0.0:
            taken.append(now[0])
    for i, first in enumerate(taken):
        for j in range(i, len(taken)):
            assert j - i + 1 <= burst + rate * (taken[j] - first) + 1e-6


def test_the_wait_that_is_told_is_enough_and_names_do_not_share():
    now = [0.0]
    buckets = TokenBuckets(2.0, 1, clock=lambda: now[0])
    assert buckets.take("a") == 0.0
    wait = buckets.take("a")
    assert wait == pytest.approx(0.5) and buckets.take("b") == 0.0
    now[0] += wait
    assert buckets.take("a") == 0.0


def test_buckets_are_bounded():
    buckets = TokenBuckets(1.0, 1, most=10)
    for number in range(100):
        buckets.take(str(number))
    assert len(buckets) == 10


# Metrics


def test_metrics_as_prometheus_reads_them():
    metrics = Metrics()
    metrics.counter("asked_total", "How often.")
    metrics.gauge("open", "How many.", lambda: 3)
    metrics.histogram("took_seconds", "How long.")
    assert "asked_total 0" in metrics.text()
    metrics.count("asked_total", route="/a", status="200")
    metrics.count("asked_total", 2, route='/"b"\n', status="200")
    for seconds in (0.001, 0.005, 0.006, 99.0):
        metrics.observe("took_seconds", seconds)
    lines = metrics.text().splitlines()
    assert 'asked_total{route="/a",status="200"} 1' in lines
    assert 'asked_total{route="/\\"b\\"\\n",status="200"} 2' in lines
    assert "open 3" in lines and "# TYPE took_seconds histogram" in lines
    assert 'took_seconds_bucket{le="0.005"} 2' in lines
    assert 'took_seconds_bucket{le="0.01"} 3' in lines
    assert 'took_seconds_bucket{le="+Inf"} 4' in lines and "took_seconds_count 4" in lines


@given(st.lists(st.floats(0.0, 100.0), max_size=40))
def test_buckets_of_a_histogram_count_what_is_below_their_end(values):
    metrics = Metrics()
    metrics.histogram("s", "x")
    for value in values:
        metrics.observe("s", value)
    told = {line.partition(" ")[0]: line.rpartition(" ")[2] for line in metrics.text().splitlines()}
    for end in SECONDS if values else ():
        name = str(int(end)) if end == int(end) else repr(end)
        assert int(told[f's_bucket{{le="{name}"}}']) == sum(value <= end for value in values)


# Sessions


class Play:
    side = "agent"


def sessions(**given):
    now, closed = [0.0], []
    settings = {"most": 3, "most_each": 2, "idle_s": 10.0, "most_characters": 100} | given
    return Sessions(**settings, on_close=closed.append, clock=lambda: now[0]), now, closed


def test_a_session_is_its_keys_own():
    store, _, _ = sessions()
    mine = store.open("me", Play())
    assert store.get("me", mine.id) is mine
    told = []
    for owner, name in (("you", mine.id), ("me", "x" * 32)):
        with pytest.raises(Problem) as problem:
            store.get(owner, name)
        told.append((problem.value.status, problem.value.message))
    assert told[0] == told[1], "nobody learns whether another's session is there"


def test_ids_are_long_and_never_shown_by_accident():
    store, _, _ = sessions(most=1000, most_each=1000)
    opened = [store.open("me", Play()) for _ in range(500)]
    assert len({one.id for one in opened}) == 500 and min(len(one.id) for one in opened) >= 32
    assert not any(one.id in repr(one) for one in opened)


def test_sessions_are_bounded_for_a_key_and_for_all():
    store, _, _ = sessions()
    for owner in ("me", "me", "you"):
        store.open(owner, Play())
    told = []
    for owner in ("me", "you"):
        with pytest.raises(Problem) as problem:
            store.open(owner, Play())
        told.append(problem.value.status)
    assert told == [429, 503]


def test_an_idle_session_is_closed_and_a_busy_one_is_not():
    store, now, closed = sessions()
    idle, busy = store.open("me", Play()), store.open("me", Play())
    store.hold(busy)
    now[0] = 11.0
    assert store.expire() == 1 and closed == [idle]
    store.free(busy)
    assert store.expire() == 0 and store.get("me", busy.id) is busy
    now[0] = 22.0
    with pytest.raises(Problem):
        store.get("me", busy.id)
    assert closed == [idle, busy] and len(store) == 0


def test_room_is_made_of_idle_sessions():
    store, now, _ = sessions(most=1)
    store.open("me", Play())
    now[0] = 11.0
    assert store.open("you", Play()).owner == "you"


def test_a_session_takes_one_step_at_a_time_and_so_many_characters():
    store, _, _ = sessions()
    one = store.open("me", Play())
    store.hold(one, 60)
    with pytest.raises(Problem) as busy:
        store.hold(one, 1)
    store.free(one)
    with pytest.raises(Problem) as full:
        store.hold(one, 60)
    store.hold(one, 40)
    assert (busy.value.status, full.value.status) == (409, 413)


def test_closing_twice_is_heard_of_once():
    store, _, closed = sessions()
    one = store.open("me", Play())
    store.close(one)
    store.close(one)
    store.open("me", Play())
    store.close_all()
    assert len(closed) == 2


# Threads


def test_what_a_function_returns_or_raises_comes_back():
    async def run():
        work = Work(2, 10, 5.0)
        assert await work.run("me", lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await work.run("me", lambda: 1 // 0)
        assert (work.running, work.waiting) == (0, 0)
        work.close()

    asyncio.run(run())


def test_a_slow_call_is_given_up_but_keeps_its_place_until_it_ends():
    async def run():
        work, over = Work(1, 10, 0.1), threading.Event()
        with pytest.raises(Problem) as slow:
            await work.run("me", over.wait)
        unused = []
        with pytest.raises(Problem) as behind:
            await work.run("me", lambda: 1, unused=lambda: unused.append(True))
        assert (slow.value.status, behind.value.status, unused) == (504, 504, [True])
        assert work.running == 1
        over.set()
        while work.running:
            await asyncio.sleep(0.01)
        assert await work.run("me", lambda: 2) == 2
        work.close()

    asyncio.run(run())


def test_slow_calls_of_one_key_do_not_hold_another():
    async def run():
        work, over = Work(4, 100, 5.0), threading.Event()
        slow = [asyncio.create_task(work.run("slow", over.wait)) for _ in range(10)]
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        assert await work.run("quick", lambda: 1) == 1
        assert time.monotonic() - begun < 1.0 and work.running == 2
        over.set()
        await asyncio.gather(*slow)
        work.close()

    asyncio.run(run())


def test_too_many_that_wait_are_turned_away():
    async def run():
        work, over = Work(1, 2, 5.0), threading.Event()
        tasks = [asyncio.create_task(work.run("me", over.wait)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Problem) as busy:
            await work.run("me", lambda: 1)
        assert busy.value.status == 503
        over.set()
        await asyncio.gather(*tasks)
        work.close()

    asyncio.run(run())


# Histories


def said(*contents):
    roles = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}
    return [Said(roles[content[0]], content[2:]) for content in contents]


def test_a_history_in_exchanges():
    assert exchanges(
        said("s:be kind", "a:Welcome", "u:Hi", "a:Yes?", "t:{}", "u:one", "u:two")
    ) == [
        ("Hi", "Yes?"),
        ("one\ntwo", None),
    ]


@pytest.mark.parametrize("history", [(), ("s:x",), ("u:Hi", "a:Yes"), ("a:Hello",)])
def test_a_history_without_anything_to_reply_to(history):
    with pytest.raises(InvalidConfiguration, match="does not end with"):
        exchanges(said(*history))


@pytest.mark.parametrize(
    "messages",
    [None, [], "x", [1], [{}], [{"role": "user"}], [{"role": "king", "content": "x"}],
     [{"role": "user", "content": 5}], [{"role": "user", "content": [{"type": "image_url"}]}],
     [{"role": "user", "content": "x" * 11}], [{"role": "user", "content": "x"}] * 4],
)  # fmt: skip
def test_messages_that_are_none(messages):
    with pytest.raises(Problem) as told:
        history_of(messages, most=3, longest=10)
    assert told.value.status == 422


def test_parts_of_a_content_are_joined_and_developers_are_the_system():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "developer", "content": "x"}, {"role": "user", "content": parts}]
    assert history_of(messages, 9, 9) == said("s:x", "u:ab")


@given(st.text())
def test_pieces_make_the_text_again(text):
    assert "".join(pieces(text)) == text

