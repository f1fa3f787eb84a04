"""A hook of MkDocs: what documents have for the repository, as the site has it.

Links to files outside of docs/ lead to pages of the site, and bars in code in tables, which are
escaped for other readers of Markdown, are not for this one.

Documents are read in the repository, too, so they link to `../SECURITY.md` and `../examples/…`.
Each file that is linked becomes a page `repository/PATH`: Markdown as it is, other text as a block
of code, a folder as its README or a list of its files.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PREFIX = "repository/"
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)(?P<target>[^)#\s]+)(?=[^)]*\))")
CODE_IN_TABLE = re.compile(r"(?<=[| ])`[^`\n]*\\\|[^`\n]*`(?=[^\n]*\|$)", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each file that documents link to, and for those that these link to."""
    waiting = [file.src_uri for file in files if file.src_uri.endswith(".md")]
    while waiting:
        page = waiting.pop()
        linked = {m["target"] for m in LINK.finditer(_markdown(page))}
        for found in sorted(filter(None, (_site_page(page, target) for target in linked))):
            if files.get_file_from_path(found) is None:
                files.append(File.generated(config, found, content=_markdown(found)))
                waiting.append(found)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write links to files of the repository as links to their pages; bars in code as bars."""
    here = page.file.src_uri

    def link(match: re.Match[str]) -> str:
        found = _site_page(here, match["target"])
        if found is None:
            return match["target"]
        return os.path.relpath(found, os.path.dirname(here))

    unescaped = CODE_IN_TABLE.sub(lambda code: code[0].replace("\\|", "|"), markdown)
    return LINK.sub(link, unescaped)


def _source(page: str) -> Path:
    """The file of the repository that a page shows."""
    if not page.startswith(PREFIX):
        return DOCS / page
    path = ROOT / page.removeprefix(PREFIX)
    return path if path.is_file() else path.with_suffix("")


def _site_page(page: str, target: str) -> str | None:
    """The page for what a page links to; None if nothing is there, which MkDocs then reports."""
    path = (_source(page).parent / target).resolve()
    if not path.is_relative_to(ROOT) or not path.exists():
        return None
    if path.is_dir():
        path = next((p for p in (path / "index.md", path / "README.md") if p.is_file()), path)
    if path.is_relative_to(DOCS):
        return str(path.relative_to(DOCS))
    uri = PREFIX + str(path.relative_to(ROOT))
    return uri if uri.endswith(".md") else f"{uri}.md"


def _markdown(page: str) -> str:
    """What a page shows."""
    source = _source(page)
    title = f"# {page.removeprefix(PREFIX).removesuffix('.md')}\n\n"
    if source.is_dir():
        names = sorted(p.name for p in source.iterdir() if p.is_file())
        return title + "\n".join(f"- `{name}`" for name in names)
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".md":
        return text
    return f"{title}````{source.suffix.lstrip('.')}\n{text}````\n"
