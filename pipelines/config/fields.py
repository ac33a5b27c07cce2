"""The kinds of value that a configuration holds: exact numbers, paths, names; and how a value is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    ValidationInfo,
)

import synth
from geo_data.arguments import refuse_url
from geo_data.texts import FORMULA
from pipelines.config.languages import LANGUAGES
from pipelines.storage.stored_names import stored_name
from synth.rationals import MAX_DENOMINATOR, MAX_EPSILON, decimal_up, exact

MOST = 2**31 - 1
"""The most jobs that a release can have, and so the largest whole number that a configuration needs."""

# Beyond these no number of a configuration means anything, and floats lose it.
_LARGEST, _SMALLEST = Fraction(10**12), Fraction(1, 10**100)
_LONGEST = 120  # characters of a number


class WrittenFloat(float):
    """A float of the TOML file that remembers how it was written, so that the fix can quote it."""

    def __init__(self, text: str) -> None:
        self.text = text


def _number(allowed: Callable[[Fraction], bool], otherwise: str) -> PlainValidator:
    """Return the validator of an exact number written as text; `otherwise` says what else it must be."""
    return PlainValidator(_validator(allowed, otherwise))


def _validator(
    allowed: Callable[[Fraction], bool], otherwise: str
) -> Callable[[object, ValidationInfo], Fraction]:
    def validate(value: object, info: ValidationInfo) -> Fraction:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            kind = "a float" if isinstance(value, float) else "a bare number"
            written = value.text if isinstance(value, WrittenFloat) else repr(value)
            raise ValueError(f'{written} is {kind}; write it as text: "{written}"')
        if not isinstance(value, str):
            raise ValueError(f'{shown(value)} is not a number written as text, such as "8.6" or "1/3"')
        # As a ratio, as a plan quotes it, a number has some twice as many.
        if len(value) > (3 * _LONGEST if info.context is None else _LONGEST):
            raise ValueError(f"{shown(value)} has {len(value):,} characters; write at most {_LONGEST}")
        try:
            number = exact(value)
        except ValueError:
            raise ValueError(
                f'{shown(value)} is not a number; write for example "8.6", "1e-5" or "1/3"'
            ) from None
        if number > _LARGEST or 0 < number < _SMALLEST:
            raise ValueError(
                f"{shown(value)} is larger than 10^12, or closer to 0 than 10^-100; write a number between "
                "these"
            )
        if not allowed(number):
            raise ValueError(f"{shown(value)} {otherwise}")
        return number

    return validate


_positive = _validator(lambda number: number > 0, "is not above 0; write a number above 0")


def _epsilon(value: object, info: ValidationInfo) -> Fraction:
    number = _positive(value, info)
    if number > MAX_EPSILON:
        raise ValueError(
            f'{shown(value)} is above {MAX_EPSILON}, the largest epsilon; write a smaller number, such as "8"'
        )
    return number


def decimal_or_ratio(value: Fraction) -> str:
    """Return the exact text, the same however it was written: "8.6" for "8.60" and "43/5", or "1/3"."""
    text = decimal_up(value, digits=30)
    return text if Fraction(text) == value else str(value)


def _path(value: object, info: ValidationInfo) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"{shown(value)} is not a path; write a path in quotes")
    if info.context is None:  # a plan quotes names only
        if "/" in value:
            raise ValueError(f"{shown(value)} is not the name of a file; leave its folder out")
        return Path(value)
    refuse_url(value)
    if value.startswith("~"):
        raise ValueError(f"{shown(value)}: ~ is not expanded here; write the whole path")
    path = absolute(info.context["folder"], value)
    if not path.name:
        raise ValueError(f"{shown(value)} is the root folder; name a file or folder in it")
    return path


def _columns(value: object) -> object:
    """Return one name or a list of names as a list."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(
            f"{shown(value)} is not a column; write the name of a column, or the names of columns to join: "
            '["state", "county"]'
        )
    return value


def _summary_levels(value: object) -> dict[str, str | tuple[str, str]]:
    if not isinstance(value, dict) or not value:
        raise ValueError(
            f"{shown(value)} is not a table of summary levels; write for example "
            '{ C43 = "cty", C54 = "trct" }'
        )
    levels: dict[str, str | tuple[str, str]] = {}
    for summary, level in value.items():
        if not re.fullmatch(r"C[0-9]{2}", summary):
            raise ValueError(
                f"{shown(summary)} is not a summary level of flows; write the first three characters of the "
                'GEOID: "C43" for counties, "C54" for tracts'
            )
        match level:
            case str():
                levels[summary] = level
            case [str() as home, str() as work]:
                levels[summary] = home, work
            case _:
                raise ValueError(
                    f"{shown(level)} is not a level of the geography; write its name in quotes, or the "
                    'levels of residence and workplace: ["stplc", "cty"]'
                )
    return levels


def stored(longest: int) -> AfterValidator:
    """Return the validator of a name that is stored, in one Unicode form."""

    def validate(value: str) -> str:
        try:
            return stored_name(value, longest)
        except ValueError as error:
            raise ValueError(f"{shown(value)} cannot be stored; {error}") from None

    return AfterValidator(validate)


def _email(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", value):
        raise ValueError(f'{shown(value)} is not an e-mail address; write it like "data@example.org"')
    return value


def _place_name(value: str) -> str:
    if value.lstrip()[0] in FORMULA:
        raise ValueError(f"{shown(value)} is a formula to spreadsheets; begin with a letter or digit")
    return value


def check_level_name(value: str) -> str:
    r"""Return the name of a level; raise ValueError for one that could lead a file out of its folder.

    Levels name files of a release and of its exports: no "/", "\\" or NUL in them, and no "." first.
    """
    if value.startswith(".") or set(value) & set("/\\\0"):
        raise ValueError(
            f'{shown(value)} cannot name a level: files are named after levels; leave out "/", "\\" and a '
            'leading "."'
        )
    return value


def _mechanism(value: str) -> str:
    names = sorted(synth.MECHANISMS)
    if value not in names:
        raise ValueError(f"{shown(value)} is not a mechanism; use {one_of(names)}")
    return value


def _language(value: str) -> str:
    if value not in LANGUAGES:
        raise ValueError(f"{shown(value)} is not a language of releases; use {one_of(LANGUAGES)}")
    return value


_Serializer = PlainSerializer(decimal_or_ratio, return_type=str, when_used="json")
PositiveNumber = Annotated[Fraction, PlainValidator(_positive), _Serializer]
EpsilonNumber = Annotated[Fraction, PlainValidator(_epsilon), _Serializer]
DeltaNumber = Annotated[
    Fraction,
    _number(lambda number: 0 <= number < 1, 'is not in [0, 1); write a small probability such as "1e-5"'),
    _Serializer,
]
RetentionNumber = Annotated[
    Fraction,
    _number(
        lambda number: 0 < number <= 1 and number.denominator <= MAX_DENOMINATOR,
        'is not in (0, 1] with a denominator below 2^62; write a number such as "0.5", or "1" for no pruning',
    ),
    _Serializer,
]
ShareNumber = Annotated[
    Fraction,
    _number(lambda number: 0 < number <= 1, 'is not in (0, 1]; write a number such as "0.8", or "1"'),
    _Serializer,
]
FactorNumber = Annotated[
    Fraction, _number(lambda number: number >= 1, 'is below 1; write a number such as "1.25"'), _Serializer
]

WeightNumber = Annotated[
    Fraction,
    _number(lambda number: number >= 0, 'is below 0; write a number of at least 0, such as "1"'),
    _Serializer,
]

# Serialised, a path is its last part: a folder name may say something confidential.
InputPath = Annotated[
    Path, PlainValidator(_path), PlainSerializer(lambda path: path.name, return_type=str, when_used="json")
]
LINE, STATE, JOB_TYPE = r"^[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*$", "^[a-z0-9_]+$", "^JT0[0-5]$"
Line = Annotated[str, StringConstraints(min_length=1, pattern=LINE)]
Names = Annotated[tuple[Line, ...], Field(strict=False)]  # TOML has lists, a frozen model needs tuples
LevelName = Annotated[Line, AfterValidator(check_level_name)]
LevelNames = Annotated[tuple[LevelName, ...], Field(strict=False)]
Columns = Annotated[tuple[Line, ...], Field(strict=False), BeforeValidator(_columns)]
SummaryLevels = Annotated[dict[str, str | tuple[str, str]], BeforeValidator(_summary_levels)]
Labels = dict[str, Line]
PlaceNames = dict[str, Annotated[Line, AfterValidator(_place_name)]]
Email = Annotated[Line, AfterValidator(_email)]
NameColumns = dict[str, Line]
Groupings = dict[str, Annotated[int, Field(ge=2, le=MOST)]]
Mechanism = Annotated[str, AfterValidator(_mechanism)]
Language = Annotated[str, AfterValidator(_language)]
Population = Literal["all", "residents"]
# These four stand in the names of files.
TierName = Annotated[str, StringConstraints(pattern=STATE, max_length=24)]
State = Annotated[str, StringConstraints(pattern=STATE)]
Year = Annotated[int, Field(ge=1900, le=2999)]
JobType = Annotated[str, StringConstraints(pattern=JOB_TYPE)]


def expand(path: Path) -> tuple[Path, ...]:
    """Return the files that a name with * or ? stands for, sorted; else the path itself."""
    if not set("*?") & set(path.name):
        return (path,)
    return tuple(sorted(file for file in path.parent.glob(path.name) if file.is_file())) or (path,)


def absolute(folder: Path, path: Path | str) -> Path:
    """Return `path`, relative to `folder`, as an absolute path; a link keeps its own name."""
    whole = folder / path
    return whole.resolve() if whole.name == ".." else whole.parent.resolve() / whole.name


def shown(value: object) -> str:
    """Return a value much as it stands in the file."""
    if isinstance(value, WrittenFloat):
        return value.text
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # a date; a number of thousands of digits
        text = "a value"
        with suppress(ValueError):
            text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def listed(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return one name, or several, as several."""
    return (value,) if isinstance(value, str) else tuple(value)


def one_of(names: Iterable[str]) -> str:
    """Return the names in quotes, joined by "or"."""
    return " or ".join(f'"{name}"' for name in names) or "nothing"
