"""Compiled loops: several processes that need one compile it once."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json
from convgym.engine import kernel
import numpy as np

@kernel.kernel
def twice(number):
    return 2 * number

@kernel.loop
def doubled(numbers):
    for place in range(len(numbers)):
        numbers[place] = twice(numbers[place])

print("ready", flush=True)
input()
numbers = np.arange(5)
doubled(numbers)
hits, misses = doubled.stats.cache_hits, doubled.stats.cache_misses
print(json.dumps([numbers.tolist(), sum(hits.values()), sum(misses.values())]))
"""


@pytest.mark.skipif(os.name == "nt", reason="files have no locks there")
def test_processes_that_start_together_compile_a_loop_once(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)  # a function without a file is not kept
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    processes = [
        subprocess.Popen(
            [sys.executable, "program.py"], cwd=tmp_path, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    found = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    assert all(numbers == [0, 2, 4, 6, 8] for numbers, _, _ in found)
    assert sorted((hits, misses) for _, hits, misses in found) == [(0, 1), (1, 0), (1, 0)]
