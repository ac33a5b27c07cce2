"""The one error for bad input: which file, which column, which rule, how many, and the fix."""

from __future__ import annotations

import os
import re
from typing import SupportsInt

from synth.errors import ShownError

__all__ = ["InputError", "refuse_any"]


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
    fix : str
        What the user can do about it.

    Examples
    --------
    >>> raise InputError("od.csv.gz", "rows are not in the geography", column="h_geocode", count=12)
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
        fix: str = "",
    ) -> None:
        self.file = os.fspath(file)
        self.rule = rule
        self.column = column
        self.count = count
        self.fix = fix
        message = f"{self.file}: "
        if column is not None:
            message += f"column {column}: "
        if count is not None:
            message += f"{count:,} "
        message += f"{_of_one(rule) if count == 1 else rule}."
        if fix:
            message += f" Fix: {fix}."
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        # The default would rebuild from the message alone and fail on the way back from a Dask worker.
        return _rebuild, (self.file, self.rule, self.column, self.count, self.fix)


def refuse_any(
    file: str | os.PathLike[str], rule: str, count: SupportsInt, *, column: str | None = None, fix: str = ""
) -> None:
    """Raise an `InputError` if any rows, values or units break a rule; parameters as of that."""
    if count:
        raise InputError(file, rule, column=column, count=int(count), fix=fix)


def _of_one(rule: str) -> str:
    """Put a rule in the singular: "values are not finite numbers", of one value."""
    return re.sub(r"\b(not|as) (\w+) numbers", r"\1 a \2 number", re.sub(r"^(\w+)s are\b", r"\1 is", rule))


def _rebuild(file: str, rule: str, column: str | None, count: int | None, fix: str) -> InputError:
    return InputError(file, rule, column=column, count=count, fix=fix)
