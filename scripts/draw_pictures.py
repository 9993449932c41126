"""Draw the pictures that stand in documents; they are committed, and a test draws them again.

    python scripts/draw_pictures.py [--out scripts/pictures]

    conversation.svg    one seeded episode, a conversation beside what it has earned so far

Plain SVG: text stays text, light and dark follow the reader, and the same episode gives the same
bytes.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import gymnasium as gym

import convgym  # noqa: F401  registers the ids
from convgym.data.packed_files import whole_file
from convgym.evaluation.rollout import Rollout, play
from convgym.language.tool_calls import parse_reply
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import OraclePolicy

PICTURES = Path(__file__).resolve().parent / "pictures"
SEED = 254
ENVIRONMENT: dict[str, Any] = {
    "id": "ConvGym/CustomerService-v0", "observation": "dict", "action": "text",
    "reward": "milestones", "topic": "return",
}  # fmt: skip

WIDTH, LEFT, RIGHT = 900, 590, 640
"""Of the picture; where the conversation ends; where the return is 0. In pixels."""
SCALE = 200
"""Pixels of a return of 1."""
LINE, CHARACTERS, GAP = 19, 52, 9
_COLOURS = {
    "light": {
        "back": "#ffffff", "ink": "#1c2733", "soft": "#5a6875", "line": "#d5dce3",
        "customer": "#eef2f5", "agent": "#d8ecf3", "earned": "#1f6f8b", "area": "#d8ecf3",
    },
    "dark": {
        "back": "#12181e", "ink": "#dde4ea", "soft": "#93a1ad", "line": "#33404b",
        "customer": "#222c35", "agent": "#17404f", "earned": "#6cc0e0", "area": "#173442",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One bubble, or one tool call."""

    speaker: str
    """customer, agent or tool."""
    lines: tuple[str, ...]
    reward: float | None = None
    """Of the agent turn that ends with this row."""

    @property
    def height(self) -> int:
        """In pixels, the gap below included."""
        return LINE * len(self.lines) + (14 if self.speaker != "tool" else 4) + GAP


def episode() -> Rollout:
    """The oracle's conversation in words, on the seed of the picture."""
    given = dict(ENVIRONMENT)
    env = gym.make(given.pop("id"), disable_env_checker=True, **given)
    return play(env, RenderedPolicy(OraclePolicy()), seed=SEED)


def rows(rollout: Rollout) -> Iterator[Row]:
    """What was said and called, in its order; a turn's reward stands at its last row."""
    yield _said("customer", rollout.observations[0]["message"])
    after = zip(rollout.actions, rollout.observations[1:], rollout.rewards, strict=True)
    for reply, observation, reward in after:
        parsed = parse_reply(reply)
        results = observation["tool_results"].splitlines()
        for call, result in zip(parsed.calls, results, strict=True):
            given = ", ".join(str(value) for value in call.arguments.values())
            shown = textwrap.shorten(re.sub(r'["{}]', "", result), 62, placeholder=" …")
            yield Row("tool", (f"{call.name}({given})", f"→ {shown}"), reward)
        if parsed.speech:
            yield _said("agent", parsed.speech, reward)
        if observation["message"]:
            yield _said("customer", observation["message"])


def _said(speaker: str, text: str, reward: float | None = None) -> Row:
    return Row(speaker, tuple(textwrap.wrap(text, CHARACTERS)), reward)


# -- drawing ---------------------------------------------------------------------------------------


def conversation_svg(rollout: Rollout) -> str:
    """The picture: bubbles on the left, the return so far on the right, at the same heights."""
    top, parts, turns = 58, [], []
    for row in rows(rollout):
        parts += _bubble(row, top)
        if row.reward is not None:
            turns.append((top + (row.height - GAP) / 2, row.reward))
        top += row.height
    height = top + 34
    success = json.loads(rollout.infos[-1]["reward_terms"])["success"]
    verdict = f"success {success:g}, {rollout.length} agent turns"
    body = [*_frame(height), *parts, *_earned(turns, top, verdict)]
    described = f"A conversation about a return at a shop’s support desk; {verdict}."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{described}" font-family="system-ui, sans-serif" font-size="14">\n'
        f"<style>{_style()}</style>\n" + "\n".join(body) + "\n</svg>\n"
    )


def _style() -> str:
    def rules(scheme: str) -> str:
        c = _COLOURS[scheme]
        return (
            f".back{{fill:{c['back']}}}.ink{{fill:{c['ink']}}}.soft{{fill:{c['soft']}}}"
            f".customer{{fill:{c['customer']}}}.agent{{fill:{c['agent']}}}"
            f".earned{{fill:{c['earned']}}}.area{{fill:{c['area']}}}"
            f".line{{stroke:{c['line']}}}.curve{{stroke:{c['earned']};fill:none}}"
        )

    code = ".code{font-family:ui-monospace,monospace;font-size:12px}"
    return f"{code}{rules('light')}@media(prefers-color-scheme:dark){{{rules('dark')}}}"


def _frame(height: int) -> list[str]:
    """An opaque ground, so that it can be read on any page, and the headings."""
    ticks = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = RIGHT + SCALE * value
        ticks.append(f'<line class="line" x1="{x:g}" y1="50" x2="{x:g}" y2="{height - 38}"/>')
        ticks.append(_text(x, 42, f"{value:g}", "soft", 'text-anchor="middle" font-size="12"'))
    return [
        f'<rect class="back" width="{WIDTH}" height="{height}" rx="10"/>',
        _text(20, 24, f"{ENVIRONMENT['id']}, seed {SEED}", "soft"),
        _text(RIGHT, 24, "reward so far", "soft"),
        *ticks,
    ]


def _bubble(row: Row, top: int) -> list[str]:
    """A row at this height: the customer's left, the agent's right, calls between."""
    if row.speaker == "tool":
        return [
            _text(64, top + 14, row.lines[0], "ink code"),
            _text(64, top + 14 + LINE, row.lines[1], "soft code"),
        ]
    width = 24 + 7.4 * max(map(len, row.lines))
    x = 20 if row.speaker == "customer" else LEFT - width
    box = (
        f'<rect class="{row.speaker}" x="{x:g}" y="{top}" width="{width:g}" '
        f'height="{row.height - GAP}" rx="9"/>'
    )
    lines = (
        _text(x + 12, top + 7 + 14 + LINE * number, line, "ink")
        for number, line in enumerate(row.lines)
    )
    return [box, *lines]


def _earned(turns: list[tuple[float, float]], bottom: int, verdict: str) -> list[str]:
    """The sum of rewards as a stair that goes down with the conversation."""
    x, path, drawn, total = float(RIGHT), [f"M{RIGHT} 50"], [], 0.0
    for y, reward in turns:
        total += reward
        x = RIGHT + SCALE * total
        path.append(f"V{y:g}H{x:g}")
        if reward:
            drawn.append(f'<circle class="earned" cx="{x:g}" cy="{y:g}" r="4"/>')
            left = total > 0.8  # there is no room beyond
            more = f'font-weight="600" text-anchor="{"end" if left else "start"}"'
            at = (x - 8, y - 8) if left else (x + 10, y + 5)
            drawn.append(_text(*at, f"{reward:+.2f}", "earned", more))
    path.append(f"V{bottom}")
    stair = "".join(path)
    return [
        f'<path class="area" d="{stair}H{RIGHT}Z" opacity="0.55"/>',
        f'<path class="curve" stroke-width="2" d="{stair}"/>',
        *drawn,
        _text(RIGHT, bottom + 20, verdict, "ink", 'font-weight="600"'),
    ]


def _text(x: float, y: float, text: str, kind: str, more: str = "") -> str:
    """A line of text; `kind` are classes, `more` further attributes."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" {more}>{escape(text)}</text>'


def main() -> None:
    """Draw all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=PICTURES, help="a folder")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with whole_file(out / "conversation.svg") as file:
        file.write(conversation_svg(episode()).encode())
    print(f"{out / 'conversation.svg'}")


if __name__ == "__main__":
    main()
