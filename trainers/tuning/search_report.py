"""What a search came to, as a page and as plain values.

Knows nothing of learners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainers.tuning.plan import Plan
from trainers.tuning.trials import Trial

_MOST = 50
"""Trials that the page lists; report.json has all."""


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The finished trial with the highest score, the first of equals."""
    done = [one for one in trials if one.state == "finished" and one.value is not None]
    return max(done, key=lambda one: (one.value or 0.0, -one.number), default=None)


def counted(trials: Sequence[Trial]) -> str:
    """How many ended in which way."""
    states = [one.state for one in trials]
    parts = [(states.count("finished"), "finished"), (states.count("pruned"), "given up early")]
    parts += [(states.count("failed"), "failed")]
    return ", ".join(f"{number} {how}" for number, how in parts if number) or "none ended"


def told(trial: Trial) -> str:
    """A trial in one line."""
    options = ", ".join(f"{_short(name)}={_plain(one)}" for name, one in trial.changes.items())
    if trial.state == "failed":
        return f"trial {trial.number} failed: {trial.error} ({options})"
    score = "no score" if trial.value is None else f"{trial.value:.3f}"
    if trial.interval is not None:
        score += f" [{trial.interval[0]:.3f}, {trial.interval[1]:.3f}]"
    how = " when it was given up" if trial.state == "pruned" else ""
    return f"trial {trial.number}: {score}{how} ({options})"


def plain_report(
    name: str, plan: Plan, trials: Sequence[Trial], importances: Mapping[str, float]
) -> dict[str, Any]:
    """All of it, for JSON."""
    best = best_of(trials)
    return {
        "search": name, "algorithm": plan.given["algorithm"], "space": plan.space_name,
        "metric": plan.metric, "split": "validation", "seed": plan.seed,
        "best": None if best is None else best.to_dict(),
        "importances": dict(importances), "ranges": dict(plan.space),
        "trials": [one.to_dict() for one in trials],
    }  # fmt: skip


def page(
    name: str,
    plan: Plan,
    trials: Sequence[Trial],
    importances: Mapping[str, float],
    commands: Sequence[str],
) -> str:
    """The same as Markdown, for people."""
    best, algorithm = best_of(trials), plan.given["algorithm"]
    episodes = plan.given["evaluation"]["episodes"]
    lines = [
        f"# Tuning of {algorithm}: {name}", "",
        f"{len(trials)} trials in the space {plan.space_name!r}: {counted(trials)}. Scored by "
        f"{plan.metric} in {episodes:,} validation conversations, seed {plan.seed}, sampler "
        f"{plan.sampler}, pruner {plan.pruner}.", "",
    ]  # fmt: skip
    if best is not None:
        lines += _best(best, trials)
        lines += ["", *(f"    {command}" for command in commands), ""]
    lines += ["## Trials", "", *_table(plan, trials), ""]
    if importances:
        lines += [
            "## Importance of options", "",
            "Shares by PED-ANOVA (arXiv:2304.10255) over the finished trials; with few of them "
            "they are rough.", "", "| option | share |", "|---|---|",
            *(f"| `{_short(name)}` | {share:.3f} |" for name, share in importances.items()), "",
        ]  # fmt: skip
    failed = [one for one in trials if one.state == "failed"]
    if failed:
        lines += ["## Failed", "", *(f"- {told(one)}" for one in failed), ""]
    return "\n".join(lines)


def _best(best: Trial, trials: Sequence[Trial]) -> list[str]:
    assert best.value is not None
    lines = [f"Best: {told(best)}."]
    first = next((one for one in trials if one.number == 0 and one.state == "finished"), None)
    if first is not None and first.number != best.number and first.value is not None:
        lines.append(f"The first trial had {first.value:.3f}.")
    lines.append(
        "The best of many was chosen by the conversations that it was scored in, so it will earn "
        "less in others; what the configuration earns on the test split says:"
    )
    return [" ".join(lines)]


def _table(plan: Plan, trials: Sequence[Trial]) -> list[str]:
    names = list(plan.space)
    rows = [
        "| trial | score | 95 % | ended | " + " | ".join(f"`{_short(n)}`" for n in names) + " |",
        "|---" * (4 + len(names)) + "|",
    ]
    ordered = sorted(trials, key=lambda one: (one.state != "finished", -(one.value or -1e300)))
    for one in ordered[:_MOST]:
        score = "" if one.value is None else f"{one.value:.3f}"
        interval = one.interval
        between = "" if interval is None else f"{interval[0]:.3f} – {interval[1]:.3f}"
        values = [_plain(one.changes[name]) if name in one.changes else "" for name in names]
        cells = [str(one.number), score, between, one.state, *values]
        rows.append(f"| {' | '.join(cells)} |")
    if len(ordered) > _MOST:
        rows += ["", f"… and {len(ordered) - _MOST} more in report.json."]
    return rows


def _short(name: str) -> str:
    return name.removeprefix("learner.")


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
