"""SVG as text. Colours are classes, so that the page chooses them for light, dark and paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

Point = tuple[float, float]


def number(value: float) -> str:
    """Short: a tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")


def picture(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """One drawing that grows and shrinks with the page; ``title`` is for those who cannot see."""
    # escape() takes quotation marks too, so no title ends the attribute.
    return (
        f'<svg viewBox="0 0 {number(width)} {number(height)}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def text(
    x: float, y: float, words: str, style: str = "", anchor: str = "start", title: str = ""
) -> str:
    """``anchor`` is start, middle or end."""
    inner = escape(words) + (f"<title>{escape(title)}</title>" if title else "")
    return (
        f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"'
        f"{_class(style)}>{inner}</text>"
    )


def line(start: Point, end: Point, style: str) -> str:
    """A straight one."""
    return (
        f'<line x1="{number(start[0])}" y1="{number(start[1])}" x2="{number(end[0])}" '
        f'y2="{number(end[1])}"{_class(style)}/>'
    )


def path(points: Sequence[Point], style: str) -> str:
    """An open line through points."""
    return f'<polyline points="{_points(points)}"{_class(style)}/>'


def polygon(points: Sequence[Point], style: str, title: str = "") -> str:
    """A closed area; ``title`` shows where the pointer rests."""
    inner = f"<title>{escape(title)}</title>" if title else ""
    return f'<polygon points="{_points(points)}"{_class(style)}>{inner}</polygon>'


def box(x: float, y: float, width: float, height: float, style: str, title: str = "") -> str:
    """A rectangle."""
    inner = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
        f'height="{number(height)}"{_class(style)}>{inner}</rect>'
    )


def dot(at: Point, radius: float, style: str, title: str = "") -> str:
    """A small circle."""
    inner = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<circle cx="{number(at[0])}" cy="{number(at[1])}" r="{number(radius)}"'
        f"{_class(style)}>{inner}</circle>"
    )


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in points)


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""
