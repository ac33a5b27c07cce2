"""The periods that releases are for, and the texts of a schedule that name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from string import Formatter
from typing import Any

from pipelines.config.fields import shown

_PARTS = {"year": 1, "quarter": 4, "month": 12}  # of a year
_LABELS = {"year": "{year}", "quarter": "{year}Q{quarter}", "month": "{year}-{month}"}
NEEDED = {"year": ("year",), "quarter": ("year", "quarter"), "month": ("year", "month")}


@dataclass(frozen=True)
class Period:
    """A year, a quarter or a month."""

    kind: str
    number: int  # counted from the year 0

    @classmethod
    def of(cls, kind: str, day: date) -> Period:
        """Return the period that a day is in."""
        parts = _PARTS[kind]
        return cls(kind, day.year * parts + (day.month - 1) * parts // 12)

    def earlier(self, by: int) -> Period:
        """Return the period that many before this one."""
        return Period(self.kind, self.number - by)

    @property
    def first_day(self) -> date:
        """The day on which it begins."""
        year, part = divmod(self.number, _PARTS[self.kind])
        return date(year, part * 12 // _PARTS[self.kind] + 1, 1)

    @property
    def label(self) -> str:
        """``2025``, ``2025Q4`` or ``2025-12``."""
        return _LABELS[self.kind].format(**self._names())

    def _names(self) -> dict[str, str]:
        day = self.first_day
        names = {"year": f"{day.year}", "quarter": f"{(day.month + 2) // 3}", "month": f"{day.month:02}"}
        return dict(list(names.items())[: 1 + list(_PARTS).index(self.kind)])

    def names(self) -> dict[str, str]:
        """Return what stands for what in a template; ``previous_`` names the period before."""
        return self._names() | {f"previous_{n}": text for n, text in self.earlier(1)._names().items()}


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """Put the period into a text, or into those of a list."""
    if isinstance(value, list):
        return [filled(part, names) for part in value]
    if not isinstance(value, str):
        return value
    try:
        fields = [part[1:] for part in Formatter().parse(value) if part[1] is not None]
    except ValueError:
        fields = [("", "", None)]
    for name, form, conversion in fields:
        if name not in names or form or conversion:
            known = ", ".join(f"{{{known}}}" for known in names)
            raise ValueError(f"{shown(value)}: what stands in braces must be one of {known}")
    return value.format(**names)


def put(data: dict[str, Any], key: str, value: Any) -> None:
    """Replace one value of a configuration; members of a list are counted from 1."""
    *tables, last = key.split(".")
    inside: Any = data
    for part in tables:
        if isinstance(inside, list) and part.isdecimal() and 1 <= int(part) <= len(inside):
            inside = inside[int(part) - 1]
        elif isinstance(inside, dict):
            inside = inside.setdefault(part, {})
        else:
            raise ValueError(f'the base has no table "{part}" there')
    if not isinstance(inside, dict):
        raise ValueError("the base has no table there")
    whole = key == "release.year" or type(inside.get(last)) is int
    inside[last] = int(value) if whole and isinstance(value, str) and value.isdecimal() else value
