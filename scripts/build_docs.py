"""The documentation as pages that need nothing beside them: no script, no network, no server.

    python scripts/build_docs.py [--out build/docs]        make docs

    README and guides (*.md)              ─► where they are in the repository, as .html
    docstrings of the environments        ─► environments/CustomerService-v0.html, …
    dataset cards (datasets/…/*.md)       ─► datasets/…
    docstrings of convgym and trainers    ─► reference/convgym.engine.acts.html, …  as written
    all of it                             ─► index.html

Sources are read, not imported, but for the environments. A folder is written aside and put in
place as a whole; dead links, within and out of it, end in exit code 1.
"""

from __future__ import annotations

import argparse
import ast
import html
import inspect
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from check_links import ROOT, dead, document, guides, markdown, slugs
from gymnasium.envs.registration import load_env_creator

from convgym.envs.registration import ENVIRONMENTS, WRAPPED_ENVIRONMENTS

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2733;--soft:#5a6875;--line:#d5dce3;--back:#fff;
--block:#f4f6f8;--link:#0b5f82}
@media(prefers-color-scheme:dark){:root{--ink:#dde4ea;--soft:#93a1ad;--line:#33404b;--back:#12181e;
--block:#1b232b;--link:#6cc0e0}}
body{font:16px/1.55 system-ui,sans-serif;max-width:64rem;margin:1.5rem auto;padding:0 1rem;
color:var(--ink);background:var(--back)}
a{color:var(--link)}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem;
border-bottom:1px solid var(--line)}h3{font-size:1rem;margin-bottom:.2rem}
table{border-collapse:collapse;font-size:.92rem;display:block;overflow-x:auto}
th,td{padding:.3rem .7rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
pre,code{font-family:ui-monospace,monospace;font-size:.87em}code{background:var(--block)}
pre{background:var(--block);padding:.8rem;overflow-x:auto}pre code{background:none}
img{max-width:100%}nav{font-size:.9rem;color:var(--soft)}.inner{margin-left:1.5rem}
"""
_DRAWN = re.compile(r"\S {3,}\S|[─►▲▼│└├┌┐┘┬┴┼◄]")
"""What shows that lines are to stand as they are, beside a shape that has a line of its own."""


def page(title: str, body: str, home: str) -> str:
    """A whole page; `home` is the way from it to the index."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)} · ConvGym</title><style>{_STYLE}</style></head><body>"
        f'<nav><a href="{home}">ConvGym</a></nav>\n{body}</body></html>\n'
    )


class Site:
    """The pages that are being written below `out`."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.pages: dict[str, str] = {}
        """Titles by the page's place."""

    def write(self, place: str, title: str, body: str) -> None:
        """One page."""
        path = self.out / place
        path.parent.mkdir(parents=True, exist_ok=True)
        home = os.path.relpath(self.out / "index.html", path.parent)
        path.write_text(page(title, body, home), encoding="utf-8")
        self.pages[place] = title

    # -- guides and cards --------------------------------------------------------------------------

    def write_guide(self, path: Path) -> None:
        """A Markdown file where it is, links of it included."""
        text, place = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), place.stem)
        body = re.sub(r'(href|src)="([^"]+)"', self._moved(path), rendered(text))
        self.write(place.with_suffix(".html").as_posix(), title, body)

    def _moved(self, path: Path) -> Callable[[re.Match[str]], str]:
        def moved(match: re.Match[str]) -> str:
            name, link = match.groups()
            target, hash_, anchor = link.partition("#")
            file = (path.parent / target).resolve()
            if ":" in target or not target or not file.is_relative_to(ROOT) or not file.exists():
                return match[0]
            if file.suffix == ".md":
                target = target[: -len(".md")] + ".html"
            elif file.is_file():  # a picture, a script: it comes along
                copy = self.out / file.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
            return f'{name}="{target}{hash_}{anchor}"'

        return moved

    # -- environments ------------------------------------------------------------------------------

    def write_environments(self) -> None:
        """A page for each id, of the docstring of what makes it."""
        for name, where in {**ENVIRONMENTS, **WRAPPED_ENVIRONMENTS}.items():
            made = load_env_creator(where)
            said = inspect.getdoc(made) or ""
            call = f'    gymnasium.make("{name}")'
            module = where.partition(":")[0]
            body = rendered(f"# {name}\n\n{call}\n\n{said}", html_too=False)
            link = f'<p><a href="../reference/{module}.html">{module}</a></p>'
            self.write(f"environments/{name.partition('/')[2]}.html", name, body + link)

    # -- reference ---------------------------------------------------------------------------------

    def write_reference(self) -> None:
        """A page for each module that has anything public."""
        for top in ("convgym", "trainers"):
            for path in sorted((ROOT / top).rglob("*.py")):
                parts = path.relative_to(ROOT).with_suffix("").parts
                name = ".".join(parts).removesuffix(".__init__")
                tree = ast.parse(path.read_text(encoding="utf-8"))
                body = f"<h1>{name}</h1>" + told(tree) + "".join(members(tree))
                self.write(f"reference/{name}.html", name, body)

    # -- index -------------------------------------------------------------------------------------

    def write_index(self) -> None:
        """What there is, in the order in which one would read it."""
        first = ["README.html", "CHANGELOG.html", "convgym/contributing.html"]
        parts = {
            "Start here": first,
            "Environments": self._below("environments/"),
            "Guides": [p for p in self._below("convgym/", "trainers/") if p not in first],
            "Datasets": self._below("datasets/"),
        }
        body = "<h1>ConvGym</h1>"
        for title, places in parts.items():
            links = "".join(f"<li>{self._link(place)}</li>" for place in places)
            body += f"<h2>{title}</h2><ul>{links}</ul>"
        body += "<h2>Reference</h2>"
        modules = self._below("reference/")
        for part, places in groupby(modules, lambda p: ".".join(self.pages[p].split(".")[:2])):
            body += f"<h3>{part}</h3><p>{' · '.join(map(self._link, places))}</p>"
        self.write("index.html", "Documentation", body)

    def _below(self, *starts: str) -> list[str]:
        return sorted((p for p in self.pages if p.startswith(starts)), key=self.pages.__getitem__)

    def _link(self, place: str) -> str:
        return f'<a href="{place}">{html.escape(self.pages[place])}</a>'


# -- text to HTML ----------------------------------------------------------------------------------


def rendered(text: str, html_too: bool = True) -> str:
    """Markdown as HTML, its headings with the anchors that GitHub gives them."""
    reader = markdown(html_too)
    tokens = reader.parse(text)
    heads = [token for token in tokens if token.type == "heading_open"]
    for head, slug in zip(heads, slugs(tokens), strict=True):
        head.attrSet("id", slug)
    return str(reader.renderer.render(tokens, reader.options, {}))


def told(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """What something says of itself, as HTML in which drawings stay drawings."""
    blocks = []
    for block in (ast.get_docstring(node) or "").split("\n\n"):
        drawn = block.startswith("# (") or any(map(_DRAWN.search, block.splitlines()))
        blocks.append(textwrap.indent(block, "    ") if drawn else block)
    return rendered("\n\n".join(blocks), html_too=False)


def members(tree: ast.Module | ast.ClassDef, depth: int = 2) -> Iterator[str]:
    """The public classes, functions and methods of a module, each with what it says of itself."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            yield _head(depth, "class", f"{node.name}({bases})" if bases else node.name)
            yield told(node)
            yield _fields(node)
            yield '<div class="inner">' + "".join(members(node, depth + 1)) + "</div>"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            arguments = ast.unparse(node.args)
            result = f" → {ast.unparse(node.returns)}" if node.returns else ""
            yield _head(depth, "", f"{node.name}({arguments}){result}")
            yield told(node)


def _head(depth: int, kind: str, name: str) -> str:
    return f"<h{depth}>{kind} <code>{html.escape(name)}</code></h{depth}>"


def _fields(node: ast.ClassDef) -> str:
    """The fields of a dataclass: name, type, default, and the sentence under each."""
    rows = []
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or ast.unparse(field.target).startswith("_"):
            continue
        value = after.value if isinstance(after, ast.Expr) else None
        said = value.value if isinstance(value, ast.Constant) else ""
        default = f" = {ast.unparse(field.value)}" if field.value else ""
        shown = f"{ast.unparse(field.target)}: {ast.unparse(field.annotation)}{default}"
        told = html.escape(inspect.cleandoc(said)) if isinstance(said, str) else ""
        rows.append(f"<tr><td><code>{html.escape(shown)}</code></td><td>{told}</td></tr>")
    return f"<table>{''.join(rows)}</table>" if rows else ""


def build(out: Path) -> list[str]:
    """Write all pages into `out`, which is replaced; a sentence for each dead link."""
    aside = out.with_name(f".{out.name}.part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    site = Site(aside)
    for path in guides():
        if not path.is_relative_to(ROOT / "tests"):
            site.write_guide(path)
    site.write_environments()
    site.write_reference()
    site.write_index()
    shutil.rmtree(out, ignore_errors=True)
    aside.rename(out)
    document.cache_clear()
    return [said for path in sorted(out.rglob("*.html")) for said in dead(path.resolve(), out)]


def main() -> int:
    """Build, and say what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "docs", help="a folder")
    out = parser.parse_args().out.resolve()
    problems = build(out)
    print("\n".join(problems) or f"{out / 'index.html'}: {len(list(out.rglob('*.html')))} pages")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
