"""Counters, gauges and histograms as Prometheus reads them, in its text format 0.0.4."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from threading import Lock

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the histograms' buckets."""
_MOST_SERIES = 500
"""Label values come from our own code; more than this would be a leak."""

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What a service counts; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._help: dict[str, tuple[str, str]] = {}
        self._counters: dict[str, dict[Labels, float]] = {}
        self._gauges: dict[str, Callable[[], float]] = {}
        self._histograms: dict[str, dict[Labels, tuple[list[int], list[float]]]] = {}

    def counter(self, name: str, told: str) -> None:
        """A number that only grows; it is there, as 0, before it is first counted."""
        self._help[name], self._counters[name] = ("counter", told), {}

    def gauge(self, name: str, told: str, read: Callable[[], float]) -> None:
        """A number that is read when it is asked for."""
        self._help[name], self._gauges[name] = ("gauge", told), read

    def histogram(self, name: str, told: str) -> None:
        """Seconds, in buckets."""
        self._help[name], self._histograms[name] = ("histogram", told), {}

    def count(self, name: str, by: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            series, key = self._counters[name], tuple(sorted(labels.items()))
            if key in series or len(series) < _MOST_SERIES:
                series[key] = series.get(key, 0.0) + by

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add one observation to a histogram."""
        with self._lock:
            series, key = self._histograms[name], tuple(sorted(labels.items()))
            if key not in series:
                if len(series) >= _MOST_SERIES:
                    return
                series[key] = ([0] * (len(SECONDS) + 1), [0.0])
            counts, total = series[key]
            counts[bisect_left(SECONDS, seconds)] += 1
            total[0] += seconds

    def text(self) -> str:
        """All of it, in the order of its declaration."""
        lines: list[str] = []
        for name, (kind, told) in self._help.items():
            lines += [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
            if kind == "gauge":
                lines.append(f"{name} {_number(self._gauges[name]())}")
                continue
            with self._lock:
                if kind == "counter":
                    series = self._counters[name] or {(): 0.0}
                    lines += [f"{name}{_labels(k)} {_number(v)}" for k, v in series.items()]
                else:
                    for key, (counts, total) in self._histograms[name].items():
                        lines += _histogram(name, key, counts, total[0])
        return "\n".join(lines) + "\n"


def _histogram(name: str, key: Labels, counts: list[int], total: float) -> list[str]:
    lines, sum_ = [], 0
    for end, count in zip((*SECONDS, float("inf")), counts, strict=True):
        sum_ += count
        le = "+Inf" if end == float("inf") else _number(end)
        lines.append(f"{name}_bucket{_labels((*key, ('le', le)))} {sum_}")
    lines += [f"{name}_sum{_labels(key)} {_number(total)}", f"{name}_count{_labels(key)} {sum_}"]
    return lines


def _labels(labels: Labels) -> str:
    told = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + ",".join(told) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
