"""Pages of the site with the source files that the documentation links to.

On the site, `[Strip](../src/albertine/model/strip.py#L25)` leads to a page with the file, at line 25.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parent.parent
_LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml"}
_OUTSIDE_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)#]*)(?:#L(?P<line>\d+))?[^)]*\)")
_PAGE = """---
title: {title}
search: {{exclude: true}}
hide: [toc]
---
# `{path}`

````````{language} linenums="1"
{content}
````````
"""


def code_pages(config: MkDocsConfig) -> list[File]:
    """Return a page for each source file that a page of the documentation links to."""
    documents = Path(config.docs_dir)
    paths = {
        path
        for page in documents.rglob("*.md")
        for link in _OUTSIDE_LINK.finditer(page.read_text(encoding="utf-8"))
        if (path := _source_path(link, posixpath.dirname(page.relative_to(documents).as_posix())))
    }
    return [File.generated(config, _page_name(path), content=_page(path)) for path in sorted(paths)]


def with_links_to_code(markdown: str, page: File) -> str:
    """Return a page whose links to source files lead to their pages; other links out of docs/ become text."""
    folder = posixpath.dirname(page.src_uri)

    def replaced(link: re.Match[str]) -> str:
        if not posixpath.normpath(posixpath.join(folder, link["target"])).startswith(".."):
            return link[0]  # from one folder of docs/ to another
        path = _source_path(link, folder)
        if path is None:
            return link["text"]
        line = f"#__span-0-{link['line']}" if link["line"] else ""
        # As HTML, because mkdocs knows no anchors of lines and would warn.
        return f'<a href="{get_relative_url(_page_url(path), page.url)}{line}">{link["text"]}</a>'

    return _OUTSIDE_LINK.sub(replaced, markdown)


def _source_path(link: re.Match[str], folder: str) -> str | None:
    """Return the path of a linked source file from the root of the repository; None for other targets."""
    target = posixpath.normpath(posixpath.join("docs", folder, link["target"]))
    file = ROOT / target
    return target if file.suffix in _LANGUAGES and file.is_file() else None


def _page_name(path: str) -> str:
    return f"code/{path}.md"


def _page_url(path: str) -> str:
    return f"code/{path}/"


def _page(path: str) -> str:
    file = ROOT / path
    content = file.read_text(encoding="utf-8").rstrip()
    return _PAGE.format(path=path, title=file.name, language=_LANGUAGES[file.suffix], content=content)
