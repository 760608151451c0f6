"""The pages of the documentation as tests read them: headings, links, blocks of code, commands."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READERS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]  # what a reader is shown, without the changelog

_FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
_COMMAND = re.compile(r"asymrl [a-z]|asymrl --")


def name_of(path: Path) -> str:
    """A page's path from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def fenced(path: Path) -> list[tuple[str, str]]:
    """Language and text of each fenced block of a page."""
    return [(language.strip(), text) for _, language, text in _FENCE.findall(path.read_text())]


def blocks(path: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return [text for each, text in fenced(path) if each == language]


def prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", path.read_text())


def inline_code(path: Path) -> list[str]:
    """What a page has between single backticks, on one line each."""
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(path).replace("``", ""))]


def named_code(path: Path) -> list[tuple[Path, str]]:
    """Every `file.py`: `one`, `two` of a page as pairs of a source file and a name in it."""
    named = re.findall(r"`([\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", path.read_text())
    source = ROOT / "src" / "asymrl"
    return [(source / file, name) for file, names in named for name in re.findall(r"`(\w+)`", names)]


def links(path: Path) -> Iterator[tuple[Path, str]]:
    """File and anchor of each link of a page to a file of the repository; an empty anchor is the file itself."""
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", prose(path))):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        yield (path.parent / file).resolve() if file else path, anchor


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, by the rule of Python-Markdown; a heading that comes again gets a number."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_text).strip().lower())
        count = sum(each == slug or each.startswith(f"{slug}_") for each in found)
        found.add(f"{slug}_{count}" if count else slug)
    return found


def commands(path: Path) -> list[str]:
    """Every command `asymrl ...` of a page, in blocks of shell commands and between backticks."""
    shell = [text for language, text in fenced(path) if language in ("", "bash")]
    lines = [line for text in shell for line in re.sub(r"\\\n\s*", "", text).splitlines()]
    steps = [step.strip().removeprefix(".venv/bin/") for line in lines for step in line.split("&&")]
    return [step for step in [*steps, *inline_code(path)] if _COMMAND.match(step)]
