"""Records of a Hugging Face dataset: from its files on disk, or from the hub by its name.

    path                                      read as
    a .parquet or .arrow file                 its rows
    a .jsonl, .json (.gz, .zst) file          its lines, or its one array
    a folder that `save_to_disk` wrote        the .arrow files that its state.json lists
    any other folder                          its data files whose path names the split
    no path                                   rows from the hub, by the package `datasets`

Rows come batch by batch; their faults carry the number of the row in its file, counted from 1.
In a column every row has every field, so a null is a field that is not there. What JSON has no
word for, such as a date, becomes a text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from convgym.data.json_arrays import json_records
from convgym.data.logs import Records
from convgym.data.packed_files import check_readable
from convgym.errors import DatasetError, InvalidLog, MissingExtra, told

Row = dict[str, Any]
ROWS = 500
"""Rows of a .parquet file that are made Python values at once."""
TABLES = (".parquet", ".arrow")
LINES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".json.gz", ".json.zst")
_BROKEN = (OSError, ValueError, LookupError, TypeError, MemoryError, SystemError)
"""What pyarrow raises over a damaged table; its own errors are of the first three."""
NO_DATA = ("state.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json")
SPLITS = ("train", "training", "test", "testing", "dev", "validation", "valid", "val", "eval")


def sources(
    name_or_path: str | os.PathLike[str], split: str, limit: int
) -> list[tuple[Path, Callable[[], Records]]]:
    """Of each file of the split its path, and what begins a pass over its records.

    Raises DatasetError where there is no such dataset or split, MissingExtra for a table without
    pyarrow.
    """
    path = Path(name_or_path)
    if not path.exists():
        return [(path, partial(_row_records, _hub_dataset(os.fspath(name_or_path), split)))]
    return [(file, _source(file, limit)) for file in _files(path, split)]


def _source(path: Path, limit: int) -> Callable[[], Records]:
    check_readable(path)
    if path.suffix not in TABLES:
        return partial(json_records, path, limit)
    table = _Table(path)
    try:
        next(iter(table), None)  # now, because no pass can mend what is no table
    except _BROKEN as error:
        raise DatasetError(f"{path} cannot be read as a table: {_line(error)}.") from error
    return partial(_row_records, table)


# Which files


def _files(path: Path, split: str) -> list[Path]:
    if path.is_file():
        return [path]
    if (path / "dataset_dict.json").exists():
        splits = _field(path / "dataset_dict.json", "splits")
        if split not in splits:
            raise DatasetError(f"{path} has no split {split!r}; it has {', '.join(splits)}.")
        path = path / split
    if (path / "state.json").exists():
        listed = _field(path / "state.json", "_data_files")
        try:
            return [path / file["filename"] for file in listed]
        except (KeyError, TypeError) as error:
            raise DatasetError(
                f"{path / 'state.json'} is not what save_to_disk writes: {error!r}."
            ) from error
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name.endswith((*TABLES, *LINES)) and file.name not in NO_DATA
    ]
    if not files:
        raise DatasetError(f"{path} holds no data file; such are {', '.join(TABLES + LINES)}.")
    names = [file.relative_to(path).as_posix() for file in files]
    for word in (r"[A-Za-z0-9_]+", r"[A-Za-z0-9]+"):  # train_sft is rather itself than train
        words = [re.findall(word, name) for name in names]
        named = [file for file, said in zip(files, words, strict=True) if split in said]
        if named:
            return named
    if split == "train" and not any(set(said) & set(SPLITS) for said in words):
        return files  # files that name no split are all for training, as on the hub
    listed = ", ".join(names[:8])
    raise DatasetError(f"no data file of {path} names the split {split!r}; there are {listed}.")


def _field(path: Path, key: str) -> Any:
    try:
        return json.loads(path.read_bytes())[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DatasetError(f"{path} is not what save_to_disk writes: {error!r}.") from error


# Rows


class _Table:
    """The rows of a .parquet or .arrow file, batch by batch."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow
        except ImportError:
            raise MissingExtra("pyarrow", "hf") from None
        self._ipc = pyarrow.ipc
        self._path = path

    def __iter__(self) -> Iterator[Row]:
        for batch in self._parquet() if self._path.suffix == ".parquet" else self._arrow():
            batch.validate(full=True)  # or what was damaged is looked for outside of memory
            yield from batch.to_pylist()

    def _parquet(self) -> Iterator[Any]:
        from pyarrow import parquet

        with parquet.ParquetFile(self._path) as file:
            yield from file.iter_batches(batch_size=ROWS)

    def _arrow(self) -> Iterator[Any]:
        with self._path.open("rb") as raw:
            if raw.read(6) == b"ARROW1":  # with an index at its end; `datasets` writes streams
                with self._ipc.open_file(raw) as file:
                    yield from map(file.get_batch, range(file.num_record_batches))
            else:
                raw.seek(0)
                with self._ipc.open_stream(raw) as stream:
                    yield from stream


def _hub_dataset(name: str, split: str) -> Iterable[Row]:
    try:
        from datasets import load_dataset
    except ImportError:  # also where a folder of that name, ours for one, is all there is
        raise DatasetError(
            f"there is no file or folder {name!r}, and to ask the hub for it the package "
            f"'datasets' is missing; check the path, or: pip install \"convgym[hf]\"."
        ) from None
    try:
        rows: Iterable[Row] = load_dataset(name, split=split, streaming=True)
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"there is no file or folder {name!r}, and the hub gives no such dataset with a "
            f"split {split!r}: {_line(error)}."
        ) from error
    return rows


def _row_records(rows: Iterable[Row]) -> Records:
    try:
        for row in rows:
            yield row, _plain(row)
    except _BROKEN as error:
        yield b"", InvalidLog(f"no row can be read from here on: {_line(error)}")


def _line(error: Exception) -> str:
    return told(error).rstrip(".")


def _plain(value: Any) -> Any:
    """The value as JSON has it: without nulls in objects, and texts for what it has no word for."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)
