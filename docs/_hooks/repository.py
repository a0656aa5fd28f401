"""Makes repository text fit the site: the repository's URL, links to files outside ``docs/``, Chinese line breaks."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
URL: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]

#: Files of the repository that pages of the site include.
PAGES = {"CONTRIBUTING.md": "docs/project/contributing.md", "CHANGELOG.md": "docs/project/changelog.md"}
FRONT_PAGES = ("index.md", "index.zh-CN.md")

_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
#: The link to the other language below a page's title: the site's header has one.
_LANGUAGE_LINK = re.compile(r"^\[(?:简体中文|English)\]\([\w./-]+\.md\)\n", re.MULTILINE)
_CHINESE = r"[\u2014\u201c\u201d\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
#: A line break inside a Chinese sentence, which a browser would show as a space.
_CHINESE_BREAK = re.compile(rf"(?<={_CHINESE})\n *(?={_CHINESE})|(?<=[，。；：、])\n *(?=[A-Za-z\[])")


def site_markdown(text: str, source: str) -> str:
    """The Markdown ``text`` of the file ``source``, for the site."""

    def replace(match: re.Match[str]) -> str:
        opening, target, anchor, closing = match.groups()
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        path = PAGES.get(path, path)
        if path.startswith("docs/"):
            target = posixpath.relpath(path, posixpath.dirname(PAGES.get(source, source)))
        else:
            if not (ROOT / path).exists():
                return match[0]  # strict mode reports it
            target = f"{URL}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
        return f"{opening}{target}{anchor or ''}{closing}"

    parts = _CODE.split(text)
    return "".join(
        part if index % 2 else _CHINESE_BREAK.sub("", _LINK.sub(replace, part)) for index, part in enumerate(parts)
    )


def on_config(config: Any) -> Any:
    """Take the repository's URL from pyproject.toml."""
    config.repo_url, config.repo_name = URL, URL.removeprefix("https://github.com/")
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make a page's links work on the site."""
    source = f"docs/{page.file.src_uri}"
    if page.file.src_uri in FRONT_PAGES:
        page.meta["hide"] = ["navigation"]  # its section has no other page
    for included, including in PAGES.items():
        if source == including:
            return site_markdown((ROOT / included).read_text(), included)
    return site_markdown(_LANGUAGE_LINK.sub("", markdown), source)


def _breakable(match: re.Match[str]) -> str:
    return match[1] + re.sub(r"(?<=\w[_./])(?=\w)", "<wbr>", match[2])


def on_post_page(output: str, **_: Any) -> str:
    """Fit the finished page to Hardpoint.

    Long names in the first column of a table may break after an underscore, a dot or a slash. (Not earlier: the search
    index would contain the parts.) Without the dropped attribute, Material does not ask GitHub for the number of stars.
    """
    output = re.sub(r"(<tr>\s*<td[^>]*>\s*<code>)([^<]*)", _breakable, output)
    return output.replace(' data-md-component="source"', "")


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same for pages without Markdown, such as 404.html."""
    return on_post_page(output_content)
