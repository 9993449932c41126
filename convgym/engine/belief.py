"""What the agent has seen and done, as one row of small integers.

Belief holds only what passed before the agent's eyes: what the user said, what tools
returned, what it told, asked and wrote itself. Features, action masks and scripted
policies are functions of this row and of nothing else, so none of them can leak the goal.
A batch of episodes is a (n, cells) array of the same cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class BeliefLayout:
    """Names of the cells, in order: the meaning of the feature vector, frozen per version."""

    def __init__(self, names: Sequence[str]) -> None:
        assert len(set(names)) == len(names), "a cell's name stands for one cell"
        self.names = tuple(names)
        self._index = {name: position for position, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> int:
        """Index of the cell called `name`."""
        return self._index[name]

    def block(self, pattern: str, members: Sequence[object]) -> tuple[int, ...]:
        """Indices of `pattern` with each member put in: `block("read_{}", range(3))`."""
        return tuple(self._index[pattern.format(member)] for member in members)

    def row(self) -> bytearray:
        """An empty belief: all cells 0."""
        return bytearray(len(self.names))
