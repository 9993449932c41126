"""Dead links in Markdown and in HTML: files that are not there, anchors that nothing has.

    python scripts/check_links.py [FILE or FOLDER …]     all guides of this repository, if none

    [text](convgym/desk/README.md#rules)   the file, and a heading of it
    `scripts/demo.py`, `tests/test_*.py`   in Markdown: whatever is named with one of our folders

A line for each dead one, and exit code 1. Addresses of other machines are left alone: nothing is
fetched.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
_NAMED = re.compile(
    r"(?<![\w./-])(?:convgym|trainers|scripts|tests|datasets)/[\w./*-]*\w\.(?:py|md|toml|jsonl?)\b"
)
_SKIPPED = {"build", "dist", "runs", "demo", "node_modules"}


@dataclass
class Document:
    """What one file points at, and what in it can be pointed at."""

    links: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    """Files of ours that are named without a link."""
    anchors: set[str] = field(default_factory=set)


# -- reading ---------------------------------------------------------------------------------------


@cache
def document(path: Path) -> Document:
    """A Markdown or HTML file, read once."""
    text = path.read_text(encoding="utf-8")
    return _html(text) if path.suffix == ".html" else _markdown(text)


def markdown(html: bool = True) -> MarkdownIt:
    """Markdown as it is written here: CommonMark with tables; without `html`, < is a character."""
    return MarkdownIt("commonmark", {"html": html}).enable("table")


def slugs(tokens: list[Token]) -> list[str]:
    """The anchors of the headings, in their order, as GitHub makes them."""
    heads = [after for before, after in pairwise(tokens) if before.type == "heading_open"]
    met: Counter[str] = Counter()
    found = []
    for head in heads:
        words = "".join(part.content for part in head.children or () if part.type != "image")
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.append(f"{slug}-{met[slug]}" if met[slug] else slug)
        met[slug] += 1
    return found


def _markdown(text: str) -> Document:
    tokens = markdown().parse(text)
    found = Document(anchors=set(slugs(tokens)))
    for token in tokens:
        for part in [token, *(token.children or ())]:
            if part.type == "link_open":
                found.links.append(str(part.attrGet("href")))
            elif part.type == "image":
                found.links.append(str(part.attrGet("src")))
            elif part.type in ("html_block", "html_inline"):
                inner = _html(part.content)
                found.links += inner.links
                found.anchors |= inner.anchors
            elif part.type in ("code_inline", "fence", "code_block"):
                found.named += _NAMED.findall(part.content)
    return found


class _Reader(HTMLParser):
    """Collects what a page links to and what it has by name."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Document()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        for name, value in attrs:
            if name in ("href", "src", "srcset") and value:
                self.found.links.append(value.split()[0])
            elif value and (name == "id" or (name == "name" and tag == "a")):
                self.found.anchors.add(value)


def _html(text: str) -> Document:
    reader = _Reader()
    reader.feed(text)
    return reader.found


# -- checking --------------------------------------------------------------------------------------


def dead(path: Path, root: Path = ROOT) -> Iterator[str]:
    """A sentence for each dead link of a file; a link that begins with / is below `root`."""
    found = document(path)
    for link in found.links:
        if reason := _why_dead(link, path, root):
            yield f"{path.relative_to(root)}: {link} {reason}"
    for name in found.named:
        if not any(root.glob(name)):
            yield f"{path.relative_to(root)}: {name} is named, but there is no such file"


def _why_dead(link: str, path: Path, root: Path) -> str:
    """Why a link leads nowhere; "" where it does not."""
    if not link:
        return "is empty"
    if _ELSEWHERE.match(link):
        return ""
    place, anchor = unquote(urlsplit(link).path), unquote(urlsplit(link).fragment)
    target = (root / place[1:] if place.startswith("/") else path.parent / place).resolve()
    if not place:
        target = path
    if not target.is_relative_to(root):
        return "leads out of the repository"
    if not target.exists():
        return "leads to a file that is not there"
    if anchor and target.suffix in (".md", ".html") and anchor not in document(target).anchors:
        return "leads to an anchor that is not there"
    return ""


def guides(root: Path = ROOT) -> list[Path]:
    """Every Markdown file below a folder; not those of environments and of what was built."""
    found = (path.relative_to(root) for path in root.rglob("*.md"))
    return sorted(
        root / path
        for path in found
        if not any(part in _SKIPPED or part.startswith(".") for part in path.parts)
    )


def files_of(path: Path) -> list[Path]:
    """The file itself, or what a folder holds of Markdown and HTML."""
    return [path] if path.is_file() else sorted([*guides(path), *path.rglob("*.html")])


def main(given: list[str] | None = None) -> int:
    """Print what is dead; 1 where anything is."""
    asked = [Path(name).resolve() for name in (sys.argv[1:] if given is None else given)]
    if missing := [path for path in asked if not path.exists()]:
        print(f"there is no {missing[0]}; name files or folders", file=sys.stderr)
        return 2
    roots = {path: place.parent if place.is_file() else place
             for place in asked for path in files_of(place)}  # fmt: skip
    roots = roots or dict.fromkeys(guides(), ROOT)
    said = [sentence for path, root in roots.items() for sentence in dead(path, root)]
    print("\n".join(said) or f"{len(roots)} files, no dead link")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
