"""Inline SVG by the XML library, so that every text is escaped and every picture well-formed."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from harness.report.text import clean


def picture(width: float, height: float, title: str, css: str) -> ET.Element:
    """A drawing of ``width`` by ``height`` that a screen reader calls ``title``."""
    size = f"{width:g} {height:g}"
    root = ET.Element("svg", {"class": css, "viewBox": f"0 0 {size}", "role": "img"})
    root.set("width", f"{width:g}")
    root.set("height", f"{height:g}")
    add(root, "title", clean(title))
    return root


def add(parent: ET.Element, tag: str, text: str | None = None, **attributes: float | str) -> ET.Element:
    """A child. Names lose a trailing ``_`` and turn ``_`` into ``-``; numbers are rounded."""
    child = ET.SubElement(parent, tag)
    for name, value in attributes.items():
        shown = clean(value) if isinstance(value, str) else number(value)
        child.set(name.rstrip("_").replace("_", "-"), shown)
    child.text = text if text is None else clean(text)
    return child


def number(value: float) -> str:
    """At most one decimal: a tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")


def markup(root: ET.Element) -> str:
    """The element as text for an HTML page."""
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)
