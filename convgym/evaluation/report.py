"""A self-contained page of what a run did: text, tables, curves; no script, no network.

    Section("Scores", table_html(...)), Section("Learning", curves_svg(...)) ─► write_report

Drawing needs matplotlib (the extra "report"); everything else is plain strings.
"""

from __future__ import annotations

import html
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convgym.errors import MissingExtra
from convgym.evaluation.evaluate import Evaluation
from convgym.evaluation.intervals import wilson

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#1c2733}h1{font-size:1.6rem}
h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid #d5dce3}
table{border-collapse:collapse;font-size:.92rem}th,td{padding:.3rem .8rem;text-align:left;
border-bottom:1px solid #e5eaee;font-variant-numeric:tabular-nums}th{background:#f2f5f7}
pre{background:#f6f8fa;padding:1rem;overflow-x:auto;font-size:.85rem;white-space:pre-wrap}
svg{max-width:100%;height:auto}p.note{color:#5a6875}
"""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, as HTML."""

    title: str
    body: str


def paragraph(text: str, note: bool = False) -> str:
    """A paragraph; `note` in grey."""
    return f'<p{" class=note" if note else ""}>{html.escape(text)}</p>'


def preformatted(text: str) -> str:
    """Text as it stands: a transcript, a ledger."""
    return f"<pre>{html.escape(text)}</pre>"


def table_html(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; every cell is escaped."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


SCORE_HEADER = ("policy", "success", "95 % interval", "mean return", "agent turns", "episodes")


def score_rows(evaluations: Sequence[Evaluation]) -> list[tuple[str, ...]]:
    """Rows under `SCORE_HEADER`."""
    return [
        (
            e.policy,
            f"{e.success:.3f}",
            f"[{e.success_interval[0]:.3f}, {e.success_interval[1]:.3f}]",
            f"{e.return_:.3f}",
            f"{e.length:.1f}",
            str(e.episodes),
        )
        for e in evaluations
    ]


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure, in inches; raises MissingExtra without matplotlib."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtra("matplotlib", "report") from error
    matplotlib.rcParams["svg.hashsalt"] = "convgym"  # the same page gives the same bytes
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def svg_of(figure: Any) -> str:
    """The figure as an SVG element; the same figure gives the same text."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def curves_svg(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    levels: Mapping[str, float],
    y_label: str,
    episodes: int = 0,
) -> str:
    """Learning curves, one panel each, with horizontal lines for what others score.

    `episodes` of each point, where it is a share, draws its 95 % interval (Wilson) as a band.
    """
    figure = new_figure(4.6 * len(curves), 3.4)
    from matplotlib.ticker import EngFormatter

    thousands = EngFormatter(sep="")
    axes = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axis, (name, points) in zip(axes, curves.items(), strict=True):
        steps = [x for x, _ in points]
        if episodes:
            spans = [wilson(round(y * episodes), episodes) for _, y in points]
            low, high = zip(*spans, strict=True)
            axis.fill_between(steps, low, high, color="#1f6f8b", alpha=0.2, linewidth=0)
        axis.plot(steps, [y for _, y in points], marker="o", color="#1f6f8b")
        for number, (label, level) in enumerate(levels.items()):
            axis.axhline(level, linestyle="--", linewidth=1, color=f"C{number + 1}", label=label)
        axis.set_title(name)
        axis.set_xlabel("training steps")
        axis.xaxis.set_major_formatter(thousands)
        axis.set_ylim(-0.03, 1.03)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel(y_label)
    if levels:
        axes[-1].legend(fontsize=8, loc="upper left")
    return svg_of(figure)


def ladder_svg(scores: Mapping[float, Mapping[str, Evaluation]]) -> str:
    """Success of each policy by difficulty, with 95 % intervals; `scores[difficulty][policy]`."""
    figure = new_figure(6.4, 3.8)
    axis = figure.subplots()
    levels = list(scores)
    for name in scores[levels[0]]:
        values = [scores[level][name].success for level in levels]
        low, high = zip(*(scores[level][name].success_interval for level in levels), strict=True)
        (line,) = axis.plot(levels, values, marker="o", label=name)
        axis.fill_between(levels, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axis.set_xticks(levels)
    axis.set_xlabel("difficulty")
    axis.set_ylabel("success, with 95 % interval")
    axis.set_ylim(-0.03, 1.03)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8, ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return svg_of(figure)


def scores_svg(evaluations: Sequence[Evaluation]) -> str:
    """Success of each policy as a bar with its interval."""
    figure = new_figure(8.0, 0.36 * len(evaluations) + 0.8)
    axis = figure.subplots()
    for place, e in enumerate(evaluations):
        low, high = e.success_interval
        axis.barh(place, e.success, color="#7fb3c8", height=0.7)
        axis.plot([low, high], [place, place], color="#1c2733", linewidth=2)
    axis.set_yticks(range(len(evaluations)), [e.policy for e in evaluations])
    axis.margins(y=0.01)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.02)
    axis.set_xlabel("success on test tasks, with 95 % interval")
    axis.grid(axis="x", alpha=0.3)
    return svg_of(figure)


def write_report(path: str | Path, title: str, sections: Sequence[Section]) -> Path:
    """Write the page in one move: a reader never meets half of it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    body = "".join(f"<h2>{html.escape(s.title)}</h2>{s.body}" for s in sections)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{html.escape(title)}</h1>{body}</body></html>"
    )
    aside = path.with_name(path.name + ".part")
    aside.write_text(page, encoding="utf-8")
    os.replace(aside, path)
    return path
