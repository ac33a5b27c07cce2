"""Areas as people name them: one way to compare names, and one order of what is found.

Pages, API and errors ask `search`. A map works without this program, so its `js/search.js` takes the same
steps, with the words that are here (`WORDS`) and come with its data; tests ask both the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.views.labels import short_name, singular, unit_names, zones_of_units
from pipelines.views.pages import map_phrases

if TYPE_CHECKING:
    from pipelines.views.release import Release

LIKE = 5
"""Areas that an error names."""
MOST = 20
"""Areas of a list; what is found besides is counted."""
WORDS: dict[str, Any] = {
    "most": MOST,
    # Letters that are no other letter with a mark.
    "letters": {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"},
    # What is written in two ways.
    "long": {"st": "saint", "ste": "sainte", "sankt": "saint", "mt": "mount", "ft": "fort"},
    # What names end with, and people leave out.
    "kinds": [
        *("borough", "ccd", "cdp", "city", "county", "district", "municipality", "parish", "plantation"),
        *("town", "township", "village"),
    ],
}
"""By which names, and what is typed, are compared."""
_INSIDE = re.compile("['\u2018\u2019`.]")
_WORD = re.compile(r"[^\W_]+")
_IS, _SHORT, _OTHER_KIND, _BEGINS, _NAMED, _CONTAINS, _ALIKE, _NOT = range(8)
_LEAST = 4  # letters of a name that may have one wrong
_SUGGESTED = 400  # more make a page slow
_MANY = 5_000  # areas of a level that nobody chooses from a list
_LEAST_WORD = 3  # letters of what an error looks for
_KEPT = 64  # levels of releases that are kept

Ranks = NDArray[np.int8]
Mask = NDArray[np.bool_]


def within_one_edit(a: str, b: str) -> bool:
    """Say whether at most one letter is wrong, missing or too many, or two neighbours are exchanged."""
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rests = (a[at + 1 :], b[at + 1 :]), (a[at + 1 :], b[at:]), (a[at:], b[at + 1 :])
    exchanged = a[at : at + 2] == b[at : at + 2][::-1] and a[at + 2 :] == b[at + 2 :]
    return a == b or any(x == y for x, y in rests) or exchanged


def _plain_words(text: str) -> list[str]:
    """Words without capitals, accents and punctuation."""
    lower = unicodedata.normalize("NFD", text).lower()
    letters = (WORDS["letters"].get(c, c) for c in lower if not unicodedata.category(c).startswith("M"))
    return _WORD.findall(_INSIDE.sub("", "".join(letters)))


def _long(words: Sequence[str]) -> list[str]:
    return [WORDS["long"].get(word, word) for word in words]


def _plain_name(name: str) -> str:
    return "".join(_long(_plain_words(name)))


def _plain_short(name: str) -> str:
    words = _plain_words(short_name(name))
    if len(words) > 1 and words[-1] in WORDS["kinds"]:
        words.pop()
    return "".join(_long(words))


class _Typed:
    """What was typed, as it is compared: with and without the words for a level."""

    def __init__(self, text: str, kind: str) -> None:
        own, words, code = _plain_words(kind), _plain_words(text), "".join(text.split()).lower()
        self.codes = [each for each in (code, code.removeprefix("".join(own))) if each]
        without = [word for word in words if word not in own]
        self.forms = [form for each in (words, without) if each for form in (each, _long(each))]


class _Level:
    """Codes and names of some areas, as they are compared."""

    def __init__(self, codes: Iterable[str], names: Iterable[str], kind: str) -> None:
        self.kind = kind
        # Of many blocks few have names.
        self.codes = pc.utf8_lower(pc.replace_substring_regex(pa.array([*codes], pa.string()), r"\s", ""))
        self.names = pa.array([name and _plain_name(name) for name in names], pa.string())
        self.shorts = pa.array([name and _plain_short(name) for name in names], pa.string())

    def of_codes(self, text: str) -> Ranks:
        """Return how well each code fits what was typed."""
        ranks = np.full(len(self.codes), _NOT, np.int8)
        for code in _Typed(text, self.kind).codes:
            ranks[_mask(pc.equal(self.codes, code))] = _IS
            ranks[_mask(pc.starts_with(self.codes, code)) & (ranks > _BEGINS)] = _BEGINS
            ranks[_mask(pc.match_substring(self.codes, code)) & (ranks > _CONTAINS)] = _CONTAINS
        return ranks

    def of_names(self, text: str, *, alike: bool = False) -> Ranks:
        """Return how well each name fits; or, where none does, whether it is like what was typed."""
        ranks = np.full(len(self.names), _NOT, np.int8)
        for form in _Typed(text, self.kind).forms:
            if alike:
                ranks[self._with_head(form, WORDS["kinds"], alike=True)] = _ALIKE
                continue
            whole = "".join(form)
            for rank, fits in (
                (_IS, _mask(pc.equal(self.names, whole))),
                (_SHORT, self._with_head(form, ())),
                (_OTHER_KIND, self._with_head(form, WORDS["kinds"])),
                (_BEGINS, _mask(pc.starts_with(self.names, whole))),
                (_NAMED, _with_all(self.shorts, form)),
                (_CONTAINS, _with_all(self.names, form)),
            ):
                ranks[fits & (ranks > rank)] = rank
        return ranks

    def _with_head(self, form: Sequence[str], open_words: Sequence[str], *, alike: bool = False) -> Mask:
        """Whether a short name is what was typed, or begins it, and its other words are in the name."""
        fits = np.zeros(len(self.names), bool)
        for n in range(1, len(form) + 1):
            head, others = "".join(form[:n]), [word for word in form[n:] if word not in open_words]
            heads = self._like(head, begun=n == len(form)) if alike else [head]
            fits |= _mask(pc.is_in(self.shorts, pa.array(heads, pa.string()))) & _with_all(self.names, others)
        return fits

    def _like(self, head: str, *, begun: bool) -> list[str]:
        """Short names like what was typed, or which begin like it."""
        if len(head) < _LEAST:
            return []
        ends = [len(head) - 1, len(head), len(head) + 1] if begun else []
        return [
            short
            for short in self.shorts.unique().to_pylist()
            if within_one_edit(head, short) or any(within_one_edit(head, short[:end]) for end in ends)
        ]


def _with_all(texts: pa.Array, words: Sequence[str]) -> Mask:
    there = _mask(pc.not_equal(texts, ""))
    for word in words:
        there &= _mask(pc.match_substring(texts, word))
    return there


def _mask(which: pa.Array) -> Mask:
    return np.array(which.to_numpy(zero_copy_only=False), bool)


@lru_cache(maxsize=_KEPT)
def _level(release: Release, level: str) -> _Level:
    names = unit_names(release, level).tolist()
    return _Level(release.geography.codes(level), names, singular(level, release.language))


@dataclass(frozen=True, eq=False)
class _Group:
    """Areas that are searched together."""

    level: str
    units: NDArray[np.integer]
    rows: NDArray[np.integer]  # Of `searched`: where they are
    searched: _Level

    def hits(self, text: str) -> list[tuple[int, int, bool]]:
        """Return rank, unit, and whether it is found by its code, of what has what was typed."""
        codes = self.searched.of_codes(text)[self.rows]
        ranks = np.minimum(codes, self.searched.of_names(text)[self.rows])
        which = np.flatnonzero(ranks < _NOT)
        by_code = (codes == ranks)[which]
        return list(zip(ranks[which].tolist(), self.units[which].tolist(), by_code.tolist(), strict=True))

    def hits_alike(self, text: str) -> list[tuple[int, int, bool]]:
        """Return the same of what is like it."""
        which = self.searched.of_names(text, alike=True)[self.rows] < _NOT
        return [(_ALIKE, unit, False) for unit in self.units[which].tolist()]


@lru_cache(maxsize=_KEPT)
def _groups(release: Release) -> list[_Group]:
    """Levels, coarsest first, then kinds of areas that cut across them; external zones last, once."""
    geography, groups = release.geography, []
    for level in release.kinds_of_areas:
        inside = np.ones(geography.n_units(level), bool)
        inside[geography.unit_of(level, geography.external_blocks)] = False
        if level in geography.non_nesting_areas:  # what is in none of them has a code of 9s
            inside &= [bool(code.strip("9")) for code in geography.codes(level)]
        units = np.flatnonzero(inside)
        groups.append(_Group(level, units, units, _level(release, level)))
    coarsest, kind = release.levels[0], map_phrases(release.language)["program"]["external_zone"]
    zones = zones_of_units(release, coarsest)
    codes = [", ".join(zone.code for zone in of_unit) for of_unit in zones.values()]
    names = [", ".join(zone.name for zone in of_unit) for of_unit in zones.values()]
    units = np.array([*zones], np.int64)
    return [*groups, _Group(coarsest, units, np.arange(len(units)), _Level(codes, names, kind))]


@dataclass(frozen=True)
class Found:
    """What was found."""

    areas: list[tuple[str, int]]  # Levels and units, best first: `MOST` at most
    number: int  # Of all
    sure: bool  # Whether the first is what is meant
    alike: bool  # Whether nothing has what was typed, and these are like it


def search(release: Release, text: str, kinds: Sequence[str] = ()) -> Found:
    """Find areas, by default of all `kinds_of_areas`, by code or name.

    First those that are called so; then those whose name without brackets, and without words such as city, is
    this, or this but for such a word; then what begins with it, has it in its short name, or anywhere. Among
    equals the coarse are first, external zones last. If there is nothing: names like it.
    """
    groups = [group for group in _groups(release) if not kinds or group.level in kinds]
    hits = [
        (rank, i, unit, of_code) for i, each in enumerate(groups) for rank, unit, of_code in each.hits(text)
    ]
    alike = not hits
    if alike:
        hits = [
            (rank, i, unit, False) for i, each in enumerate(groups) for rank, unit, _ in each.hits_alike(text)
        ]
    if not hits:
        return Found([], 0, False, False)
    hits.sort(key=lambda hit: hit[:2])
    best, by_code, alone = hits[0][0], hits[0][3], len(hits) == 1 or hits[1][0] > hits[0][0]
    # The beginning of a code means the coarsest area that has it; that of a name may be meant of any.
    sure = not alike and (len(hits) == 1 or (best <= _BEGINS and (alone or by_code)))
    return Found([(groups[i].level, unit) for _, i, unit, _ in hits[:MOST]], len(hits), sure, alike)


@lru_cache(maxsize=_KEPT)
def suggested_names(release: Release) -> list[str]:
    """Return names to choose from while one types: not those that begin with a number, as of tracts."""
    names: list[str] = []
    for level in release.kinds_of_areas:
        if release.geography.n_units(level) > _MANY:
            continue
        of_level = [name for name in unit_names(release, level).tolist() if name and not name[0].isdigit()]
        if len(names) + len(of_level) <= _SUGGESTED:
            names += of_level
    return list(dict.fromkeys(names))


def areas_named(release: Release, level: str, text: str) -> list[int]:
    """Return the units of a level that have a name."""
    name = _plain_name(text)
    return np.flatnonzero(_mask(pc.equal(_level(release, level).names, name))).tolist() if name else []


def find_areas(release: Release, level: str, text: str) -> list[int]:
    """Return the unit of a level that has a code, or else those that have a name."""
    unit = release.geography.find_unit(level, text)
    return [unit] if unit >= 0 else areas_named(release, level, text)


def names_with(release: Release, level: str, words: str) -> list[int]:
    """Return the units of a level with some words in their names, in order."""
    return np.flatnonzero(_level(release, level).of_names(words) < _NOT).tolist()


def areas_like(release: Release, words: str, kinds: Sequence[str]) -> str:
    """Return, for an error, a few areas of some kinds that may be meant by these words; "" without any."""
    if len(words.strip()) < _LEAST_WORD:
        return ""
    found, named = search(release, words, kinds), []
    for level, unit in found.areas[:LIKE]:
        (name,) = unit_names(release, level, np.array([unit]))
        named.append(f"{release.geography.codes(level)[unit]} ({f'{name}; ' if name else ''}{level})")
    return ", ".join(named) + (", and others" if found.number > LIKE else "")
