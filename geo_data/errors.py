"""The one error for bad input: which file, which column, which rule, how many, and the fix."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import SupportsInt

import pandas as pd

from synth.errors import ShownError

_NAMED = 3  # lines, or codes, that an error names
_OF_ONE = {  # verbs of rules, and their singular
    **{"are": "is", "have": "has", "do": "does", "cannot": "cannot", "lost their": "lost its"},
    **{verb: f"{verb}s" for verb in ("repeat", "lie", "differ", "name", "contain")},
}


class ChangedFileError(ShownError, ValueError):
    """A file is not what it was when it was read before."""


class InputError(ShownError, ValueError):
    """Bad input, said once and clearly, without showing a value of the data.

    Values of a file may be confidential, so a message holds names (of the file, of the column),
    the rule that was broken, and a count. Whoever raises it must keep it so.

    Parameters
    ----------
    file : str or path
        The file as the configuration names it.
    rule : str
        What is wrong; reads on after `count` where a count is given ("rows are not in the geography").
    column : str, optional
        Column name, from the configuration or the file's header.
    count : int, optional
        How many rows, values or units break the rule.
    where : str
        The first few lines of the file, from `lines_of`. Not in the message: where a row of a confidential
        file stands is confidential, and for the operator's own terminal and log only.
    fix : str
        What the user can do about it.

    Examples
    --------
    >>> import geo_data
    >>> raise geo_data.InputError("od.csv.gz", "rows are not in the geography", column="h_geocode", count=12)
    Traceback (most recent call last):
    ...
    geo_data.errors.InputError: od.csv.gz: column h_geocode: 12 rows are not in the geography.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        rule: str,
        *,
        column: str | None = None,
        count: int | None = None,
        where: str = "",
        fix: str = "",
    ) -> None:
        self.file = os.fspath(file)
        self.rule = rule
        self.column = column
        self.count = count
        self.where = where
        self.fix = fix
        message = f"{self.file}: "
        if column is not None:
            message += f"column {column}: "
        message += f"{rule if count is None else counted(count, rule)}."
        if fix:
            message += f" Fix: {fix}."
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        # The default would rebuild from the message alone and fail on the way back from a Dask worker.
        return _rebuild, (self.file, self.rule, self.column, self.count, self.where, self.fix)


def refuse_any(
    file: str | os.PathLike[str],
    rule: str,
    broken: SupportsInt | pd.Series,
    *,
    column: str | None = None,
    fix: str = "",
) -> None:
    """Raise an `InputError` if any rows, values or units break a rule.

    `broken` is how many do; or for each row of the file, by its number from 0 as index, whether it does.
    """
    if not isinstance(broken, pd.Series):
        if broken:
            raise InputError(file, rule, column=column, count=int(broken), fix=fix)
    elif broken.any():
        rows = broken.index[broken].unique()  # one row may stand for several jobs
        raise InputError(file, rule, column=column, count=len(rows), where=lines_of(rows, file), fix=fix)


def refuse_repeated(file: str | os.PathLike[str], names: Sequence[str]) -> None:
    """Raise an `InputError` if one column is named for two purposes."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        rule = f"one column is named for two purposes: {', '.join(repeated)}"
        raise InputError(file, rule, fix="name each column once")


def lines_of(numbers: Sequence[int] | pd.Index, file: str | os.PathLike[str] | None = None) -> str:
    """Return the first few of some lines in words: "lines 3, 17, 20 and more".

    Numbers of lines are from 1; with a file, of its rows, from 0: lines after the header or, of a Parquet
    file, rows.
    """
    unit, first = "line", 0
    if file is not None:
        with Path(file).open("rb") as opened:
            unit, first = ("row", 1) if opened.read(4) == b"PAR1" else ("line", 2)
    named = ", ".join(f"{number + first:,}" for number in numbers[:_NAMED])
    return f"{unit}{'s' * (len(numbers) > 1)} {named}{' and more' * (len(numbers) > _NAMED)}"


def first_codes(codes: Sequence[str]) -> str:
    """Return the first few of some codes, which must be public, for a message: "01, 02, 03 and more"."""
    return ", ".join(codes[:_NAMED]) + " and more" * (len(codes) > _NAMED)


def counted(count: int, rule: str) -> str:
    """Return a rule that is broken so many times: "1 row is ..." of "rows are ..."."""
    return f"{count:,} {_of_one(rule) if count == 1 else rule}"


def _of_one(rule: str) -> str:
    """Put a rule in the singular: "values are not finite numbers", of one value."""
    verbs = "|".join(_OF_ONE)
    # Between noun and verb there may be words: "rows of the aux file have", "areas of A (cty) are".
    if found := re.match(rf"((?:\w+ )?\w+)s\b([\w ()]*?) ({verbs})\b", rule):
        noun = re.sub("ie$", "y", found[1])
        rule = f"{noun}{found[2]} {_OF_ONE[found[3]]}{rule[found.end() :]}"
    return re.sub(r"\b(not|as) (\w+) numbers", r"\1 a \2 number", rule)


def _rebuild(file: str, rule: str, column: str | None, count: int | None, where: str, fix: str) -> InputError:
    return InputError(file, rule, column=column, count=count, where=where, fix=fix)
