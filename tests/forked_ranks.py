"""Ranks for a test: processes forked from it, so that nothing is imported again, joined by gloo."""

import multiprocessing
import tempfile
from pathlib import Path

import torch

from trainers.llm.ranks import ranks_here


def on_ranks(size, do):
    """What `do(ranks)` gives on each of `size` processes; raises what the first one raised."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as place:
        pairs = [context.Pipe(duplex=False) for _ in range(size)]
        crew = [
            context.Process(target=_begun, args=(rank, size, Path(place) / "store", do, there))
            for rank, (_, there) in enumerate(pairs)
        ]
        for one in crew:
            one.start()
        found = [here.recv() for here, _ in pairs]
        for one in crew:
            one.join()
    for value in found:
        if isinstance(value, Exception):
            raise value
    return found


def _begun(rank, size, store, do, answers):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size
    )
    try:
        found = do(ranks_here())
    except Exception as error:
        found = error
    answers.send(found)
    torch.distributed.destroy_process_group()
