"""What mkdocs does beyond its own for scripts/site: pages that mkdocs.yml does not name are added to the navigation, each manual page of
the command becomes a page, and links that lead out of docs/, such as to a header or an example, lead to a copy of that file in the
site."""

import pathlib
import re
import subprocess
from typing import Any, Dict, Set
from urllib.parse import quote

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<to>[^)#:\s]+)(?:#[^)]*)?\)")
MANUAL = "manual"  # where mkdocs.yml wants the manual pages, and their folder in the site


def _manual() -> Dict[str, str]:
    """Of each manual page of the command and its files the name, such as simba-run.1, and what it is called in the navigation."""
    pages = sorted((path for section in "15" for path in (ROOT / "man").glob("*." + section)), key=lambda path: (path.suffix, path.stem))
    return {page.name: page.stem.replace("-", " ") if page.suffix == ".1" else page.stem for page in pages}


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
    for item in config.nav:
        for title in [title for title, to in item.items() if to == MANUAL]:
            item[title] = [f"{MANUAL}/index.md", *({name: f"{MANUAL}/{page}.md"} for page, name in _manual().items())]
    return config


def _manual_page(page: str) -> str:
    """A manual page as HTML, to follow the headline of a page of the site."""
    made = subprocess.run(["mandoc", "-T", "html", "-O", "fragment,man=%N.%S", ROOT / "man" / page], check=True, capture_output=True,
                          text=True).stdout
    made = re.sub(r'<table class="(head|foot)">.*?</table>', "", made, flags=re.DOTALL)  # of a page on paper
    made = re.sub(r"(</?h)([12])\b", lambda heading: heading[1] + str(int(heading[2]) + 1), made)
    there = _manual()

    def refer(link: "re.Match[str]") -> str:
        return f'<a href="{link[1]}.html">{link[2]}</a>' if link[1] in there else link[2]

    return re.sub(r'<a class="Xr" href="([^"]*)">(.*?)</a>', refer, made, flags=re.DOTALL)


def _manual_index() -> str:
    """A line for each page: what the page itself says that it is."""
    lines = []
    for page, name in _manual().items():
        what = re.search(r"^\.Nd (.*)$", (ROOT / "man" / page).read_text(), re.MULTILINE)
        assert what, page
        lines.append(f"- [{name}]({page}.md): {what[1]}")
    return "# Commands\n\nThe manual pages of the command and of its files, as `man` shows them:\n\n" + "\n".join(lines) + "\n"


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
    files.append(File.generated(config, f"{MANUAL}/index.md", content=_manual_index()))
    for page, name in _manual().items():
        files.append(File.generated(config, f"{MANUAL}/{page}.md", content=f"# {name}\n"))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    up = "../" * page.file.src_uri.count("/")

    def lead(link: "re.Match[str]") -> str:
        path = _outside(page.file.src_uri, link["to"])
        if path is None:
            return link[0]
        if path.parent.name == "man" and path.name in _manual():
            return f"[{link['text']}]({up}{MANUAL}/{path.name}.md)"
        if not (ROOT / path).is_file():
            return link["text"]  # a folder is nothing to show
        return f"[{link['text']}]({up}source/{quote(str(path))}.txt)"

    return LINK.sub(lead, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    return html + _manual_page(name) if folder == MANUAL and name in _manual() else html
