"""Small pieces of SVG and HTML as text, with everything that comes from outside escaped.

For the charts and the page.
"""

from __future__ import annotations

from html import escape

Value = str | int | float


def element(tag: str, *content: str, **attributes: Value | None) -> str:
    """Return an element; `class_` is class, `_` in names is `-`, None leaves an attribute out; content is markup."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{written}>{''.join(content)}</{tag}>"


def number(value: Value) -> str:
    """Return a number with at most two digits behind the point, and text as it is."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


def label(text: str, x: float, y: float, class_: str = "", **attributes: Value | None) -> str:
    """Return a text at a place."""
    return element("text", escape(text), x=x, y=y, class_=class_ or None, **attributes)


def tip(text: str) -> str:
    """Return a title, which browsers show when the pointer rests on its element."""
    return element("title", escape(text))


def drawing(width: float, height: float, *content: str, class_: str = "", title: str = "") -> str:
    """Return an SVG that fills the width it is given; the title is read to those who cannot see it."""
    box = f"0 0 {number(width)} {number(height)}"
    return element(
        "svg",
        *content,
        viewBox=box,
        width=width,
        height=height,
        class_=class_ or None,
        role="img",
        aria_label=title or None,
    )
