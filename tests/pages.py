"""What every page of a report must be: well-formed, offline, rendered again from its JSON file alone."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from click.testing import CliRunner

from harness.cli.report import command as report_command

VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Checks nesting while it reads, and keeps tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.data: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []
        self.text = "".join(self.data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.data.append(data)


def check(text: str) -> Page:
    page = Page(text)
    assert not {"script", "link", "iframe", "img", "object", "embed", "form", "base"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "srcset", "style", "action")
        if name in ("href", "xlink:href"):
            assert value.startswith("#")
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    for name, value in page.attributes:
        if name == "href":
            assert value[1:] in ids
        if name == "aria-labelledby":
            assert value in ids
    return page


def rendered_again(written: tuple[Path, ...], folder: Path) -> None:
    """``harness report`` of the first file writes all of them again, byte for byte; pages are well-formed."""
    ran = CliRunner().invoke(report_command, [str(written[0]), "--out", str(folder)], standalone_mode=False)
    assert ran.return_value == 0, ran.output
    for path in written:
        assert (folder / path.name).read_bytes() == path.read_bytes()
        if path.suffix == ".html":
            check(path.read_text(encoding="utf-8"))
