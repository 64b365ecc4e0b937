"""What mkdocs does beyond its own for scripts/site: pages that mkdocs.yml does not name are added to the navigation, and links that
lead out of docs/, such as to a header or an example, lead to a copy of that file in the site."""

import pathlib
import re
from typing import Any, Set
from urllib.parse import quote

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<to>[^)#:\s]+)(?:#[^)]*)?\)")


def _named(nav: Any) -> Set[str]:
    if isinstance(nav, str):
        return {nav}
    parts = nav.values() if isinstance(nav, dict) else nav
    return set().union(*(_named(part) for part in parts))


def on_config(config: Any) -> Any:
    docs = pathlib.Path(config.docs_dir)
    there = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    more = sorted(there - _named(config.nav))
    if more:
        config.nav.append({"More": more})
    return config


def _outside(page: str, link: str) -> Any:
    """The file that a link of a page leads to, relative to the source tree, if it is outside of docs."""
    target = (ROOT / "docs" / page).parent.joinpath(link).resolve()
    if not target.exists() or not target.is_relative_to(ROOT) or target.is_relative_to(ROOT / "docs"):
        return None
    return target.relative_to(ROOT)


def on_files(files: Files, config: Any) -> Files:
    pages = files.documentation_pages()
    wanted = {_outside(page.src_uri, link["to"]) for page in pages for link in LINK.finditer(page.content_string)}
    for path in sorted(str(path) for path in wanted if path and (ROOT / path).is_file()):
        # As text, whatever it is: browsers would offer to save a header.
        files.append(File.generated(config, f"source/{path}.txt", content=(ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    up = "../" * page.file.src_uri.count("/")

    def lead(link: "re.Match[str]") -> str:
        path = _outside(page.file.src_uri, link["to"])
        if path is None:
            return link[0]
        if not (ROOT / path).is_file():
            return link["text"]  # a folder is nothing to show
        return f"[{link['text']}]({up}source/{quote(str(path))}.txt)"

    return LINK.sub(lead, markdown)
