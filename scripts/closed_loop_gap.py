"""How near an environment's users come to real ones, with a calibrated user, closed loop.

    python scripts/closed_loop_gap.py DATA/multidogo
    python scripts/closed_loop_gap.py DATA/multiwoz --env ConvGym/Recorded-v0 --json gap.json

train ─► calibrate ─► user.npz ─► gym.make(env, user=…) ─┐
                      gym.make(env)                      ├─ the desk's own agent talks ─► report
                      gym.make(env, one script)          ┘                               beside dev

    ConvGym/Recorded-v0     the domain is the log's; its agent answers as recorded ones did
    any desk                the domain is its own: what users want differs from the log's, whatever
                            the user, and classifiers tell topics apart that none of them can share

Acts are told from the words on both sides, by a tagger learnt from the logs.
`better` says of each row whether the interval of the calibrated user lies below that of the other.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from convgym.calibration.calibration import calibrate
from convgym.calibration.gap import compute_sim_real_gap
from convgym.calibration.gap_report import GapReport
from convgym.calibration.recorded_agent import RecordedAgent
from convgym.calibration.signatures import speaks
from convgym.calibration.turns import act_names, plain
from convgym.conversation import Conversation
from convgym.data.logs import read_log
from convgym.language.act_tagger import ActTagger
from convgym.simulator import ConversationSimulator, SimulatorConfig, scripted_agents

Talks = list[Conversation]
RECORDED = "ConvGym/Recorded-v0"
SCRIPT: dict[str, Any] = {"persona": {}, "style": "plain", "response_diversity": 0.0}
"""The keywords of a user who is always the same person and words an act always alike."""


def keywords_of(env_id: str, path: str) -> dict[str, dict[str, Any]]:
    """The keywords of an environment's users, by name."""
    if env_id == RECORDED:
        template, script = {"user": path, "realism": 0.49}, {"user": path, "realism": 0.0}
    else:
        template, script = {}, SCRIPT
    return {"calibrated": {"user": path}, "template": template, "scripted": script}


def played(env_id: str, agent: str, n: int, seed: int, **keywords: Any) -> Talks:
    """n conversations of an agent with the environment's users, without labels."""
    simulator = ConversationSimulator(SimulatorConfig(env_id=env_id, **keywords))
    env: Any = simulator.env.unwrapped
    log = env.simulator.log if env_id == RECORDED else ()
    policy = RecordedAgent(log) if env_id == RECORDED else scripted_agents(env)[agent]()
    talks = simulator.generate_conversations(n, seed, agent=policy)
    return [
        replace(talk, messages=tuple(_unlabelled(message) for message in talk.messages))
        for talk in talks
    ]


def _unlabelled(message: Any) -> Any:
    return replace(message, acts=(), intents=(), slots=())


def tagger_of(logs: Talks) -> ActTagger:
    """Tells the logs' acts, without their topics, from words; several of a turn as one."""
    turns = [
        (message.content, "+".join(sorted(set(map(_topicless, act_names(message))))) or "none", place)
        for talk in logs
        for place, message in enumerate(m for m in talk.messages if speaks(m))
    ]
    texts, acts, places = zip(*turns, strict=True)
    return ActTagger.fit(texts, acts, places)


def _topicless(act: str) -> str:
    return act.rpartition("-")[2]


def shown(name: str, report: GapReport, calibrated: GapReport | None) -> dict[str, Any]:
    """Print a report's rows; `calibrated` is compared with it where it is another's."""
    rows = {}
    print(f"\n{name}\n  {'metric':24s} {'value':>9s}  {'95 %':20s} {'floor p95':>9s}  better")
    for row in report.rows:
        own = calibrated.row(row.metric) if calibrated and row.metric in calibrated else None
        better = None if own is None or row.ratio is None else bool(own.high < row.low)
        mark = {None: "", True: "yes", False: "worse" if own and own.low > row.high else "="}
        print(
            f"  {row.metric:24s} {row.value:9.4f}  [{row.low:8.4f}, {row.high:8.4f}] "
            f"{row.floor_p95:9.4f}  {mark[better]}"
        )
        rows[row.metric] = {"value": row.value, "low": row.low, "high": row.high, "better": better}
    return rows


def verbatim(talks: Talks, logs: Talks) -> float:
    """Share of the user turns that stand in the logs."""
    said, known = (
        [plain(m.content) for talk in part for m in talk.messages if speaks(m)]
        for part in (talks, logs)
    )
    return float(np.isin(said, known).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of a corpus, with train and dev")
    parser.add_argument("--env", default="ConvGym/CustomerService-v0")
    parser.add_argument("--agent", default="oracle", help="the desk's agent who talks")
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--conversations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the rows here, too")
    options = parser.parse_args(arguments)
    chance = np.random.default_rng(options.seed)
    logs, dev = (list(read_log(options.folder / f"{part}.jsonl.gz")) for part in ("train", "dev"))
    logs = [logs[place] for place in chance.permutation(len(logs))[: options.logs]]
    tagger, n = tagger_of(logs), options.conversations
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "user.npz")
        calibrate(logs, seed=options.seed).save(path)
        users = {
            name: played(options.env, options.agent, n, options.seed, **keywords)
            for name, keywords in keywords_of(options.env, path).items()
        }
    found: dict[str, Any] = {}
    calibrated = None
    unlabelled = [
        replace(talk, messages=tuple(_unlabelled(m) for m in talk.messages)) for talk in dev
    ]
    for name, talks in users.items():
        report = compute_sim_real_gap(
            unlabelled, talks, training=logs, tagger=tagger, conversations=n, seed=options.seed
        )
        found[name] = shown(name, report, calibrated)
        print(f"  verbatim share {verbatim(talks, logs):.3f}")
        calibrated = calibrated or report
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
