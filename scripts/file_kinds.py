"""The files that ConvGym reads: how a good one is made, how it is read, and what must come out.

    Kind.make(path)    writes a small good file, or folder
    Kind.read(path)    reads it as its user would; what was lost in silence, in a sentence, or ""

What a kind needs that is not installed leaves it out.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import convgym  # noqa: F401  registers the environments
from convgym.calibration.calibration import Calibration
from convgym.cli.learners import policy_in
from convgym.cli.run_config import resolved
from convgym.cli.run_folder import MetricsLog, read_metrics
from convgym.cli.yaml_text import read_yaml
from convgym.conversation import Conversation, Message
from convgym.data.building import recipe_in
from convgym.data.checking import check_content
from convgym.data.conversations import ConversationDataset
from convgym.data.embedding_cache import EmbeddingCache
from convgym.data.formats import to_openai, to_sharegpt
from convgym.data.log_episodes import LogEpisodes, LogForm
from convgym.data.logs import read_log, write_log
from convgym.data.packed_files import whole_file
from convgym.data.recipes import recipes_folder
from convgym.data.replay_buffer import ConversationReplayBuffer
from convgym.data.transitions import read_episodes
from convgym.data.user_fit import fit_user
from convgym.desk.folder import FolderDesk
from convgym.envs.scenario_records import scenarios_of
from convgym.evaluation.rollout import play
from convgym.evaluation.stored import read_stored, stored_rollout, write_stored
from convgym.language.act_tagger import POSITIONS, ROWS, ActTagger
from convgym.language.encoders import HashedEncoder
from convgym.language.phrases import read_banks
from convgym.language.static_encoder import StaticEncoder
from convgym.policies.policy import RandomPolicy
from convgym.users.fit import UserFit
from convgym.users.fitted_user import FittedUser
from trainers.archive import read_archive, write_archive
from trainers.llm.preferences import read_preferences
from trainers.offline.candidate_policy import CandidatePolicy
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.saved_policies import load_policy
from trainers.offline.stored_data import open_dataset
from trainers.offline.value_function import ValueFunction
from trainers.offline.vector_policy import VectorPolicy, VectorSpace
from trainers.tabular import Table, TabularPolicy

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data"
TEXTS = ["Where is my order?", "Yes.", "", "It never came, and I want my money back!"]
TALKS = [
    Conversation(
        f"talk-{n}",
        (
            Message("user", f"Hello, {text}"),
            Message("assistant", "One moment.", reward=0.5, tool_call={"find": {"order": n}}),
            Message("tool", "{}"),
            Message("assistant", "It is on its way.", acts=(("inform", "status"),)),
            Message("user", "Thanks!", intents=("thank",), slots=(("order", str(n)),)),
        ),
        reward=float(n % 2),
        metadata={"day": n, "tags": ["a", {"b": None}]},
    )
    for n, text in enumerate(TEXTS * 3)
]


@dataclass(frozen=True)
class Kind:
    """One kind of file."""

    name: str
    file: str
    """What it is called; the ending matters to some readers."""
    make: Callable[[Path], Any]
    read: Callable[[Path], str]
    weight: int = 10
    """How often it comes, in comparison; what is slow to read comes seldom."""
    needs: tuple[str, ...] = ()
    """Packages."""


def copied(source: Path) -> Callable[[Path], Any]:
    """A maker that copies a file or a folder."""
    return partial(shutil.copytree if source.is_dir() else shutil.copyfile, source)


def quietly(read: Callable[[Path], Any]) -> Callable[[Path], str]:
    """A reader of which nothing can be counted."""

    def done(path: Path) -> str:
        read(path)
        return ""

    return done


# -- logs ------------------------------------------------------------------------------------------


def chats(convert: Callable[[Conversation], Any], array: bool) -> Callable[[Path], Any]:
    """A maker of chats, one a line or as one array."""

    def make(path: Path) -> None:
        records = [convert(talk) for talk in TALKS]
        with whole_file(path) as file:
            lines = [json.dumps(record).encode() for record in records]
            file.write(json.dumps(records).encode() if array else b"\n".join(lines) + b"\n")

    return make


def counted(read: Callable[[Path], ConversationDataset]) -> Callable[[Path], str]:
    """A reader that holds what was kept and what was reported against what stands there."""

    def done(path: Path) -> str:
        dataset = read(path)
        kept = dropped = rows = 0
        for report in dataset.report.files:
            if report.loaded + report.skipped != report.lines:
                return "loaded and skipped are not all lines"
            if report.skipped != len(report.faults):
                return "not every skipped line is named"
            rows, kept, dropped = (
                rows + report.lines, kept + report.loaded, dropped + report.skipped
            )  # fmt: skip
        if len(dataset) != kept:
            return f"{kept} rows were kept, and {len(dataset)} are there"
        there = rows_in(path) if path.is_file() else None
        if there is not None and there != kept + dropped:
            return f"{there} rows stand there, {kept} were kept and {dropped} reported"
        return ""

    return done


def rows_in(path: Path) -> int | None:
    """Lines or entries of a file, counted another way; None where nobody can say."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        if content[3:4] and content[3] & 2:  # a sum of the header, which this gzip passes over
            return None
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            return None
    if path.suffix not in (".gz", ".jsonl", ".json"):
        return None
    if not content:
        return 0
    text = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"[") and "chats" in path.name:
        try:
            return len(json.loads(text))
        except (ValueError, RecursionError):
            return None
    return content.count(b"\n") + (not content.endswith(b"\n"))


def make_table(path: Path) -> None:
    """Chats as a .parquet or .arrow file."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist([
        {"messages": [{"role": m.role, "content": m.content} for m in talk.messages]}
        for talk in TALKS
    ])  # fmt: skip
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
        return
    with (
        pyarrow.OSFile(str(path), "wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)


def make_saved(path: Path) -> None:
    """What `save_to_disk` writes, as far as it is read."""
    path.mkdir()
    make_table(path / "data-00000-of-00001.arrow")
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "train"}
    (path / "state.json").write_text(json.dumps(state))
    (path / "dataset_info.json").write_text("{}")


# -- datasets --------------------------------------------------------------------------------------

SAMPLE = "convgym/customer-service/sample-v0"


def make_minari(path: Path) -> None:
    """Four episodes of a packaged dataset, under an id without a recipe."""
    import h5py

    source = recipes_folder() / "packaged" / SAMPLE / "data"
    (path / "data").mkdir(parents=True)
    about = json.loads((source / "metadata.json").read_text("utf-8"))
    steps = 0
    with (
        h5py.File(source / "main_data.hdf5") as whole,
        h5py.File(path / "data" / "main_data.hdf5", "w") as few,
    ):
        for number in range(4):
            whole.copy(f"episode_{number}", few)
            steps += int(whole[f"episode_{number}"].attrs["total_steps"])
    about |= {"dataset_id": "own/few-v0", "total_episodes": 4, "total_steps": steps}
    (path / "data" / "metadata.json").write_text(json.dumps(about))


def read_minari(path: Path) -> str:
    """As a download is checked, and as a learner reads it."""
    episodes = list(check_content("own/few-v0", path / "data").iterate_episodes())
    if len(episodes) != 4:
        return f"4 episodes were written and {len(episodes)} read"
    return ""


def read_minari_folder(path: Path) -> str:
    """As a learner reads a folder that nobody has checked."""
    read_episodes(open_dataset(path))
    return ""


def make_stored(path: Path) -> None:
    """Episodes to be played again."""
    env = gym.make("ConvGym/CustomerService-v0", observation="features", action="act")
    policy = RandomPolicy()
    write_stored(path, [stored_rollout(env, play(env, policy, seed=n)) for n in range(3)])


def read_stored_counted(path: Path) -> str:
    """All episodes, or one sentence."""
    found, lines = sum(1 for _ in read_stored(path)), rows_in(path)
    return "" if found == lines else f"{lines} lines stand there, and {found} were read"


def make_buffer(path: Path) -> None:
    """A replay buffer with what was said."""
    buffer = ConversationReplayBuffer(64)
    buffer.extend(TALKS[:4])
    buffer.save(path)


def make_form(path: Path) -> None:
    """The form of a log's episodes."""
    path.mkdir()
    LogEpisodes(LogForm(observation="message"), None, HashedEncoder(64)).save(path)


def read_cache(path: Path) -> str:
    """Vectors from the cache are the encoder's own, or are made anew."""
    encoder = HashedEncoder(64)
    found = EmbeddingCache(path, encoder).encode(TEXTS)
    same = np.array_equal(found, encoder.encode(TEXTS))
    return "" if same else "a vector of the cache is not the encoder's"


def make_cache(path: Path) -> None:
    """A cache with all but one of the texts."""
    EmbeddingCache(path, HashedEncoder(64)).encode(TEXTS[:-1])


# -- what was learnt -------------------------------------------------------------------------------


def layers(*widths: int) -> list[Any]:
    """Weights and biases of a small network."""
    rng = np.random.default_rng(0)
    return [
        (rng.normal(size=pair).astype(np.float32), np.zeros(pair[1], dtype=np.float32))
        for pair in pairwise(widths)
    ]


def make_vector(path: Path) -> None:
    """A policy over vectors."""
    low = np.full(4, -1.0, dtype=np.float32)
    VectorPolicy("deterministic", {"actor": layers(6, 5, 4)}, VectorSpace(low, -low)).save(path)


def make_tabular(path: Path) -> None:
    """A table with three situations."""
    table = Table(np.ones(12, dtype=bool), 5)
    for n in range(3):
        table.place(np.arange(12) == n)
    TabularPolicy(table).save(path)


def make_checkpoint(path: Path) -> None:
    """A learner with its optimiser."""
    import torch

    from trainers.llm.checkpoints import write_checkpoint
    from trainers.llm.sft import SFTConfig

    module = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    write_checkpoint(path, "own form 1", SFTConfig(), 7, {"model": module}, optimizer)


def read_checkpoint(path: Path) -> str:
    """Config, steps and optimiser, put back."""
    import torch

    from trainers.llm.checkpoints import read_checkpoint, restore

    module = torch.nn.Linear(3, 2)
    *_, tensors = read_checkpoint(path, "own form 1")
    restore(tensors, {"model": module}, torch.optim.Adam(module.parameters()))
    return ""


def make_run(path: Path) -> None:
    """A run of the policy optimiser."""
    import torch

    from trainers.llm.run_checkpoints import RunState, write_run

    weights = {"model": {"w": torch.ones(3, 2), "b": torch.zeros(2)}}
    write_run(path, RunState(config={"a": 1}, counters={"step": 3}), weights, None)


def read_run_back(path: Path) -> str:
    """State and weights, put back."""
    import torch

    from trainers.llm.run_checkpoints import put_back, read_run

    _, tensors = read_run(path)
    put_back(tensors, {"model": {"w": torch.ones(3, 2), "b": torch.zeros(2)}}, None)
    return ""


def make_transformer(path: Path) -> None:
    """A Decision Transformer of a few weights."""
    from trainers.offline.decision_transformer_policy import DecisionTransformerPolicy
    from trainers.offline.transformer import Architecture, DecisionTransformer

    shape = Architecture(
        observation=4, actions=3, discrete=True, context=2, turns=9, width=8, heads=1, layers=1,
        max_return=1.0,
    )  # fmt: skip
    DecisionTransformerPolicy(DecisionTransformer(shape), 1.0).save(path)


def make_offline_checkpoint(path: Path) -> None:
    """An offline learner's checkpoint in its shape."""
    about = {"format": "convgym offline checkpoint 1", "config": {}, "step": 3, "history": []}
    write_archive(path, about, {"parts.a": np.ones(3, dtype=np.float32)})


def make_sb3(path: Path) -> None:
    """An archive of Stable-Baselines3."""
    from stable_baselines3 import PPO

    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8,
        policy_kwargs={"net_arch": [4]}).save(path)  # fmt: skip


def read_sb3(path: Path) -> str:
    """As a policy."""
    from trainers.online.sb3_archive import read_model

    read_model(path)
    return ""


def make_trials(path: Path) -> None:
    """A search with one trial."""
    trials_at(path).next()


def trials_at(path: Path) -> Any:
    """The store of a search."""
    from trainers.tuning.ranges import Range
    from trainers.tuning.trials import Trials

    space = {"learner.lr": Range.of({"range": [0.1, 1.0]}, float, "learner.lr")}
    return Trials(path, space, seed=0, pruner="median", sampler="random", steps=9, every=3)


def make_cached_replies(path: Path) -> None:
    """Replies of a judge."""
    from trainers.llm.judge_cache import ReplyCache

    ReplyCache(path, "model").put({("how?", 0): "so"})


def read_cached_replies(path: Path) -> str:
    """The reply."""
    from trainers.llm.judge_cache import ReplyCache

    found = ReplyCache(path, "model").get([("how?", 0)])
    return "" if all(isinstance(reply, str) for reply in found.values()) else "a reply is no text"


def make_config(path: Path) -> None:
    """A run's configuration with every option."""
    from convgym.cli.yaml_text import to_yaml

    path.write_text(to_yaml(resolved({"algorithm": "stub"}).to_dict()), "utf-8")


def make_metrics(path: Path) -> None:
    """Rows of a run."""
    log = MetricsLog(path)
    for step in range(6):
        log({"step": step, "loss": 1.0 / (1 + step)})


def make_preferences(path: Path) -> None:
    """Pairs of replies."""
    said = [{"role": "user", "content": "Well?"}]
    rows: list[dict[str, Any]] = [
        {"prompt": "Well?", "chosen": "Yes", "rejected": "No", "margin": 0.5},
        {"prompt": said, "chosen": [{"role": "assistant", "content": "Yes"}], "rejected": "No"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows * 3), "utf-8")


KINDS: tuple[Kind, ...] = (
    *(
        Kind(f"log {ending}", f"log{ending}", lambda path: write_log(path, TALKS),
             counted(ConversationDataset.from_jsonl), weight, needs)
        for ending, weight, needs in (
            (".jsonl", 20, ()), (".jsonl.gz", 20, ()), (".jsonl.zst", 10, ("zstandard",)),
        )
    ),
    Kind("streamed log", "log.jsonl", lambda path: write_log(path, TALKS),
         quietly(lambda path: list(read_log(path)))),
    Kind("OpenAI lines", "chats.jsonl", chats(to_openai, False),
         counted(ConversationDataset.from_openai)),
    Kind("OpenAI array", "chats.json", chats(to_openai, True),
         counted(ConversationDataset.from_openai)),
    Kind("OpenAI array, packed", "chats.json.gz", chats(to_openai, True),
         counted(ConversationDataset.from_openai)),
    Kind("ShareGPT lines", "chats.jsonl", chats(to_sharegpt, False),
         counted(ConversationDataset.from_sharegpt)),
    Kind("ShareGPT array", "chats.json", chats(to_sharegpt, True),
         counted(ConversationDataset.from_sharegpt)),
    Kind("Hugging Face lines", "chats.jsonl", chats(to_openai, False),
         counted(ConversationDataset.from_huggingface)),
    *(
        Kind(f"Hugging Face {name}", file, make, counted(ConversationDataset.from_huggingface), 4,
             ("pyarrow",))
        for name, file, make in (
            (".parquet", "rows.parquet", make_table), (".arrow", "rows.arrow", make_table),
            ("folder", "saved", make_saved),
        )
    ),
    Kind("Minari dataset, checked", "few-v0", make_minari, read_minari, 3, ("minari", "h5py")),
    Kind("Minari folder", "few-v0", make_minari, read_minari_folder, 3, ("minari", "h5py")),
    Kind("stored episodes", "episodes.jsonl", make_stored, read_stored_counted),
    Kind("replay buffer", "buffer.npz", make_buffer, quietly(ConversationReplayBuffer.load)),
    Kind("log form", "form", make_form, quietly(LogEpisodes.load)),
    Kind("embedding cache", "cache", make_cache, read_cache, 5),
    Kind("recipe", "mixed-v0.toml", copied(recipes_folder() / "customer-service/mixed-v0.toml"),
         quietly(partial(recipe_in, dataset_id="own/mixed-v0"))),
    Kind("calibration", "user.npz", copied(DATA / "recorded_user.npz"),
         quietly(Calibration.load), 3),
    Kind("fitted user", "user.npz", copied(DATA / "recorded_user.npz"), quietly(FittedUser.load)),
    Kind("user fit", "fit.json", lambda path: fit_user(TALKS).to_json(path),
         quietly(UserFit.from_json)),
    Kind("act tagger", "tagger.npz",
         lambda path: ActTagger(["a", "b"], np.zeros((ROWS + POSITIONS, 2), np.float32)).save(path),
         quietly(ActTagger.load), 2),
    Kind("word table", "words.npz",
         lambda path: StaticEncoder(["yes", "no"], np.eye(2), np.array([0.5, 0.1])).save(path),
         quietly(StaticEncoder.load)),
    Kind("word table as text", "words.txt",
         lambda path: path.write_text("2 3\nyes 0.1 0.2 0.3\nno 0.3 0.2 0.1\n"),
         quietly(StaticEncoder.load)),
    Kind("phrases", "phrases.toml", copied(DATA / "foreign_styles.toml"), quietly(read_banks), 2),
    Kind("domain folder", "library", copied(DATA / "library_domain"), quietly(FolderDesk), 1),
    Kind("scenarios", "scenarios.jsonl", copied(ROOT / "convgym" / "envs" / "scenarios.jsonl"),
         quietly(scenarios_of), 3),
    Kind("discrete policy", "policy.zip",
         lambda path: DiscretePolicy([layers(6, 5, 3)]).save(path), quietly(load_policy)),
    Kind("candidate policy", "policy.zip",
         lambda path: CandidatePolicy([layers(8, 4, 1)], np.eye(2, dtype=np.float32)).save(path),
         quietly(load_policy)),
    Kind("vector policy", "policy.zip", make_vector, quietly(load_policy)),
    Kind("tabular policy", "policy.zip", make_tabular, quietly(TabularPolicy.load)),
    Kind("policy of any learner", "policy.zip", make_tabular, quietly(policy_in), 3),
    Kind("value function", "values.zip",
         lambda path: ValueFunction([layers(6, 4, 1)], acts=False).save(path),
         quietly(ValueFunction.load)),
    Kind("Decision Transformer", "policy.zip", make_transformer, quietly(load_policy), 2,
         ("torch",)),
    Kind("offline checkpoint", "checkpoint.zip", make_offline_checkpoint,
         quietly(lambda path: read_archive(path, "convgym offline checkpoint 1"))),
    Kind("optimiser checkpoint", "sft.zip", make_checkpoint, read_checkpoint, 4,
         ("torch", "safetensors", "transformers")),
    Kind("policy optimiser's run", "run.zip", make_run, read_run_back, 4,
         ("torch", "safetensors")),
    Kind("Stable-Baselines3 archive", "policy.zip", make_sb3, read_sb3, 1,
         ("torch", "stable_baselines3", "sb3_contrib")),
    Kind("configuration", "config.yaml", make_config,
         quietly(lambda path: resolved(read_yaml(path))), 5),
    Kind("metrics", "metrics.jsonl", make_metrics, quietly(read_metrics)),
    Kind("tuning database", "trials.sqlite3", make_trials, quietly(trials_at), 1, ("optuna",)),
    Kind("judge's replies", "replies.sqlite3", make_cached_replies, read_cached_replies, 3),
    Kind("preferences", "pairs.jsonl", make_preferences, quietly(read_preferences)),
)  # fmt: skip


def kinds() -> list[Kind]:
    """Those whose packages are installed."""
    return [
        kind for kind in KINDS
        if all(importlib.util.find_spec(package) is not None for package in kind.needs)
    ]  # fmt: skip


if sys.platform == "win32" or not hasattr(os, "fork"):  # pragma: no cover
    raise SystemExit("this needs a POSIX system")
