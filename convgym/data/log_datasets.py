"""Minari datasets made of logs, which grow as logs come in.

    import_log    log ─► acts learnt ─► episodes ─► dataset, with the acts beside it
    append_log    log of the next day ─► the same acts ─► more episodes behind the others
    verify        every part's episodes ─► their hash ─► as noted when the part came?

    …/data/main_data.hdf5   episodes                metadata.json   log_parts, beside Minari's
           log_form.json    how they were made      agent_acts.npz  which act a reply is

What has been written stays as it is: the episodes of a part have the same content hash for ever. An
append copies the episodes aside, writes behind them, and puts first them and then the metadata in
place, each at once. Whenever it is killed, the metadata speak of whole parts only, and what may lie
behind those is dropped by the next append. One append at a time; a second one waits.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from convgym.conversation import Conversation
from convgym.data.agent_acts import AgentActs, fit_agent_acts
from convgym.data.episodes import content_hash, write_dataset
from convgym.data.hdf5_writing import write_episodes
from convgym.data.local_root import check_free, local_path, minari_module
from convgym.data.log_episodes import LogEpisodes, LogForm
from convgym.data.logs import LogReader, LogReport, read_log
from convgym.errors import DatasetError
from convgym.language.encoders import Encoder, HashedEncoder

if TYPE_CHECKING:
    from minari import MinariDataset

PARTS = "log_parts"
"""So Minari's metadata call the list of parts: source, sha256, episodes, steps, content of each."""
THERE = "conversation is in the dataset already"


@dataclass(frozen=True, slots=True, eq=False)
class LogImport:
    """What one log has brought into a dataset."""

    dataset: MinariDataset
    """With all of its episodes."""
    part: dict[str, Any]
    """What is noted of the log."""
    skipped: dict[str, int]
    """How many conversations made no episode, by reason."""
    shortened: int
    """Texts that lost characters: too long, or not of the alphabet."""
    report: LogReport
    """Of the reading of the log's lines."""


def import_log(
    dataset_id: str,
    path: str | os.PathLike[str],
    form: LogForm | None = None,
    *,
    acts: AgentActs | None = None,
    encoder: Encoder | None = None,
    description: str = "Conversations of a log.",
    overwrite: bool = False,
) -> LogImport:
    """Make the Minari dataset `dataset_id` of a log, in Minari's local root, whole or not.

    `acts` are learnt from the log where features need them and none are handed in
    (`convgym.data.agent_acts.fit_agent_acts`). `encoder` is a HashedEncoder unless told.

    Raises DatasetError for an id that is taken (unless `overwrite`), and for a log of which no
    conversation can be an episode, with the reasons.
    """
    check_free(dataset_id, overwrite)
    form, encoder, log = form or LogForm(), encoder or HashedEncoder(), read_log(path)
    sha256 = _sha256(path)
    if acts is None and form.observation == "features":
        acts = fit_agent_acts(log, encoder)
    episodes, parts = LogEpisodes(form, acts, encoder), []

    def finish(storage: Any) -> None:
        parts.append(_part(path, sha256, storage, 0))
        episodes.save(storage.data_path)
        storage.update_metadata({PARTS: parts, "dataset_size": storage.get_size()})

    with _locked(dataset_id):
        dataset = write_dataset(
            dataset_id,
            (episodes.observation_space, episodes.action_space),
            episodes.buffers(log),
            description=description,
            ref_min_score=None,
            ref_max_score=None,
            algorithm_name="whoever was logged",
            overwrite=overwrite,
            finish=finish,
        )
    return _import(dataset, parts[0], episodes, log)


def append_log(
    dataset_id: str, path: str | os.PathLike[str], *, encoder: Encoder | None = None
) -> LogImport:
    """Add the conversations of another log to a dataset that `import_log` has made.

    Those whose id is there already are skipped and counted. An encoder other than hashed ones must
    be handed in again. Waits while another process appends.

    Raises DatasetError for a log that is in the dataset already, or that brings nothing new.
    """
    minari = minari_module()
    place = local_path(dataset_id) / "data"
    _noted(dataset_id, place)
    log = read_log(path)
    with _locked(dataset_id):
        for left in place.parent.glob(".appending-*"):  # by one that was killed
            shutil.rmtree(left)
        parts = _noted(dataset_id, place)
        sha256 = _sha256(path)
        _check_new(dataset_id, parts, sha256)
        episodes = LogEpisodes.load(place, encoder)
        with tempfile.TemporaryDirectory(prefix=".appending-", dir=place.parent) as folder:
            aside = Path(folder) / "data"
            shutil.copytree(place, aside)
            storage = minari.MinariDataset(aside).storage
            first, before = storage.total_episodes, storage.total_steps
            known = storage.get_episode_metadata(range(first))
            ids = {str(about["options"]["conversation_id"]) for about in known}
            new = _new(log, ids, episodes)
            count, steps = write_episodes(aside / "main_data.hdf5", episodes.buffers(new), first)
            total = {"total_episodes": first + count, "total_steps": before + steps}
            storage.update_metadata(total)
            part = _part(path, sha256, storage, first)
            storage.update_metadata({PARTS: [*parts, part], "dataset_size": storage.get_size()})
            for name in ("main_data.hdf5", "metadata.json"):  # in this order: see above
                os.replace(aside / name, place / name)
    return _import(minari.load_dataset(dataset_id), part, episodes, log)


def _import(
    dataset: MinariDataset, part: dict[str, Any], episodes: LogEpisodes, log: LogReader
) -> LogImport:
    return LogImport(dataset, part, dict(episodes.skipped), episodes.shortened, log.report)


def verify(dataset_id: str) -> list[dict[str, Any]]:
    """What is noted of the parts, once every part's episodes are known to be those that came.

    Raises DatasetError naming the first part that they are not.
    """
    minari = minari_module()
    place = local_path(dataset_id) / "data"
    parts, first = _noted(dataset_id, place), 0
    dataset = minari.MinariDataset(place)
    if dataset.total_episodes != sum(part["episodes"] for part in parts):
        raise DatasetError(
            f"{dataset_id!r} has {dataset.total_episodes} episodes, but its logs brought "
            f"{sum(part['episodes'] for part in parts)}; it was changed"
        )
    for part in parts:
        content = _content(dataset.storage, first, part["episodes"])
        if content != part["content"]:
            raise DatasetError(
                f"the episodes of {part['source']!r} in {dataset_id!r} have the content hash "
                f"{content}, and {part['content']} when they came; they were changed"
            )
        first += part["episodes"]
    return parts


def _locked(dataset_id: str) -> FileLock:
    """Held by the one process that writes this dataset; lies in Minari's root, where it stays."""
    from minari.storage import get_dataset_path

    return FileLock(Path(get_dataset_path()) / f".{dataset_id.replace('/', '.')}.lock")


def _noted(dataset_id: str, place: Path) -> list[dict[str, Any]]:
    """The parts of a dataset that logs have made."""
    from minari.dataset.minari_storage import MinariStorage

    if not place.exists():
        raise DatasetError(f"there is no dataset {dataset_id!r} in {place.parent}; import a log")
    parts = MinariStorage.read_raw_metadata(place).get(PARTS)
    if parts is None:
        raise DatasetError(f"{dataset_id!r} was not made of logs; only what import_log made grows")
    return list(parts)


def _check_new(dataset_id: str, parts: list[dict[str, Any]], sha256: str) -> None:
    for number, part in enumerate(parts, 1):
        if part["sha256"] == sha256:
            raise DatasetError(
                f"this log is in {dataset_id!r} already, as part {number}, {part['source']!r}"
            )


def _new(
    conversations: Iterable[Conversation], ids: set[str], episodes: LogEpisodes
) -> Iterator[Conversation]:
    """The conversations whose ids are new."""
    for conversation in conversations:
        if conversation.conversation_id in ids:
            episodes.skipped[THERE] += 1
        else:
            yield conversation


def _part(path: str | os.PathLike[str], sha256: str, storage: Any, first: int) -> dict[str, Any]:
    """What is noted of the log whose episodes are the last ones, from `first` on."""
    if _sha256(path) != sha256:
        raise DatasetError(f"{path} was written to while it was read; take a copy that stays")
    episodes = storage.total_episodes - first
    about = storage.get_episode_metadata(range(first, storage.total_episodes))
    return {
        "source": Path(path).name,
        "sha256": sha256,
        "episodes": episodes,
        "steps": int(sum(one["total_steps"] for one in about)),
        "content": _content(storage, first, episodes),
    }


def _content(storage: Any, first: int, episodes: int) -> str:
    """The content hash of some episodes, read from the disk."""
    some = np.arange(first, first + episodes)
    return content_hash(minari_module().MinariDataset(storage, episode_indices=some))


def _sha256(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
