"""The numbers of a store as a picture, without any package for that."""

from __future__ import annotations

from html import escape
from typing import Any

_WIDTH = 400
_ROW = 20
_NAMES = 170


class Chart:
    """Bars as an SVG picture, which notebooks show."""

    def __init__(self, title: str, numbers: dict[str, Any]) -> None:
        # How far the pool may grow says nothing of what is there, and would make all else a dot beside it.
        counts = {name: number for name, number in numbers.items() if type(number) is int and name != "pool_max_bytes"}
        sizes = {name: number for name, number in counts.items() if name.endswith("_bytes")}
        others = {name: number for name, number in counts.items() if name not in sizes}
        self.svg = _picture(title, [sizes, others])
        """The text of the picture."""

    def _repr_svg_(self) -> str:
        return self.svg


def _picture(title: str, groups: list[dict[str, int]]) -> str:
    """A bar for each number, as long as its share of the largest of its group."""
    parts, y = [_text(0, _ROW - 6, title)], _ROW
    for group in groups:
        largest = max(group.values(), default=0)
        for name, number in group.items():
            # What is there at all can be seen.
            width = 0.0 if number == 0 else max(_WIDTH * (number / largest), 1.0)
            parts.append(_text(0, y + _ROW - 6, name))
            parts.append(f'<rect x="{_NAMES}" y="{y + 3}" width="{width:g}" height="{_ROW - 6}" fill="#4c8c4a"/>')
            parts.append(_text(_NAMES + width + 6, y + _ROW - 6, f"{number:,}"))
            y += _ROW
        y += _ROW // 2
    size = f'width="{_NAMES + _WIDTH + 140}" height="{y}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">{"".join(parts)}</svg>'


def _text(x: float, y: int, text: str) -> str:
    return f'<text x="{x:g}" y="{y}">{escape(text)}</text>'
