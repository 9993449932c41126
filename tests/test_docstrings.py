"""Whatever can be called from outside says in a sentence what it is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted([*ROOT.glob("convgym/**/*.py"), *ROOT.glob("trainers/**/*.py")])
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


def public(node: ast.AST, name: str) -> Iterator[tuple[str, Documented]]:
    """The module, its public classes and functions, and their public methods.

    What begins with an underscore is nobody else's; what is defined inside a function cannot be
    called from outside. `__init__` and its like are told by their class, but for `__call__`.
    """
    if isinstance(node, Documented):
        yield name, node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If | ast.Try):  # a function may be defined one way or another
            yield from ((found, kind) for found, kind in public(child, name) if kind is not child)
        elif isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from public(child, f"{name}.{child.name}")
        elif isinstance(child, Function) and not is_told_elsewhere(child):
            if not child.name.startswith("_") or child.name == "__call__":
                yield f"{name}.{child.name}", child


def is_told_elsewhere(node: Function) -> bool:
    """A setter by its property, an overload by what it is a form of."""
    decorators = [ast.unparse(one) for one in node.decorator_list]
    return any(one.endswith(("overload", ".setter")) for one in decorators)


def told(source: str, name: str = "module") -> dict[str, str]:
    """The first paragraph of what each says of itself, by name; "" where it says nothing."""
    return {
        found: (ast.get_docstring(node) or "").partition("\n\n")[0].strip()
        for found, node in public(ast.parse(source), name)
    }


EVERYTHING = {
    name: text
    for path in MODULES
    for name, text in told(path.read_text("utf-8"), str(path.relative_to(ROOT))).items()
}


def test_everything_public_has_a_docstring():
    assert len(EVERYTHING) > 3_000  # the reading itself works
    assert [name for name, text in EVERYTHING.items() if not text] == []


def test_every_docstring_begins_with_a_sentence():
    """More than the name once more: it ends like a sentence, and says something else."""
    bare = []
    for name, text in EVERYTHING.items():
        said = re.sub(r"  \S.*$|\s+# .*$", "", text)  # a shape may stand behind
        same = said.rstrip(".").replace(" ", "_").lower() == name.rpartition(".")[2].lower()
        if same or not said.endswith((".", ":", "?", "!", "…", ")", "`", '"', "|")):
            bare.append(name)
    assert bare == []


@pytest.mark.parametrize(
    ("source", "untold"),
    [
        ("x = 1", ["module"]),
        ('"""It."""\ndef f(): pass', ["module.f"]),
        ('"""It."""\nclass C:\n    """C."""\n    async def m(self): pass', ["module.C.m"]),
        ('"""It."""\ntry:\n    def f(): pass\nexcept E: pass', ["module.f"]),
        ('"""It."""\ndef _f(): pass\nclass _C:\n    def m(self): pass', []),
    ],
)
def test_what_is_missing_is_found(source, untold):
    assert [name for name, text in told(source).items() if not text] == untold
