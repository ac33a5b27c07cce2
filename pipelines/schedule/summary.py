"""What a call of `odsynth due` did, for people and for programs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pipelines.schedule.costs import Outlook

EXIT_FAILED = 1
_LOOK = ("failed", "given up", "skip", "overdue")
EXIT_BUSY = 75  # EX_TEMPFAIL of sysexits.h


@dataclass(frozen=True)
class Result:
    """What became of an occurrence in a call."""

    name: str
    due: datetime
    # Given up: as many attempts failed as are allowed. Skip: set aside, because it cannot be paid.
    # Waiting: for inputs, or for a witness; overdue: for inputs, longer than its schedule allows. Behind:
    # an earlier occurrence of the same schedule is in the way. Due: what a dry run would begin or resume.
    status: str
    local: str  # `due` in the time zone of its schedule
    detail: str = ""  # for people; may name files of this machine
    error: str | None = None  # type of the error
    attempts: int = 0  # attempts that were begun, in all calls
    tried: str = ""  # time of the last attempt (UTC), empty if there was none

    @property
    def news(self) -> str:
        """What is told of it once, until it changes."""
        return f"{self.name} {self.status} {self.error} {self.attempts} {self.tried}"


@dataclass(frozen=True)
class Summary:
    """What a call did."""

    calendar: str  # name of the folder
    now: datetime
    results: tuple[Result, ...] = ()  # in the order in which they were looked at
    # What is wrong with files of the calendar, with records or with the clock, one line each.
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()  # what went wrong with notifications; does not change the exit code
    outlook: Outlook | None = None  # what periods would cost; of a dry run
    dry_run: bool = False
    busy: bool = False  # another process is at work in the calendar, and nothing was done

    @property
    def names(self) -> frozenset[str]:
        """The occurrences that were looked at."""
        return frozenset(result.name for result in self.results)

    @property
    def failed(self) -> bool:
        """Whether somebody should look."""
        return bool(self.problems) or any(result.status in _LOOK for result in self.results)

    @property
    def news(self) -> frozenset[str]:
        """What somebody should look at: each is told once, until it changes."""
        return frozenset([*self.problems, *(r.news for r in self.results if r.status in _LOOK)])

    def without(self, announced: Collection[str]) -> Summary:
        """Return the summary without what is in nobody's way, if it was told before."""
        kept = (r for r in self.results if r.status not in ("skip", "overdue") or r.news not in announced)
        return replace(self, results=tuple(kept))

    @property
    def exit_code(self) -> int:
        """0, `EXIT_FAILED`, or `EXIT_BUSY` if another process is at work."""
        return EXIT_BUSY if self.busy else EXIT_FAILED if self.failed else 0

    def text(self) -> str:
        """Return the summary for people: one line for each occurrence and problem."""
        if self.busy:
            return "Another odsynth due is at work in this calendar. Nothing was done."
        nothing = [] if self.results or self.problems or self.notices else ["Nothing is due."]
        lines = nothing + [f"{r.status:9} {r.name}, due {r.local}: {r.detail}" for r in self.results]
        lines += [f"problem   {problem}" for problem in self.problems]
        lines += [f"notice    {notice}" for notice in self.notices]
        if self.outlook is not None:
            lines += [f"cost      {cost.text}" for cost in self.outlook.costs]
            lines += [f"gap       {gap}" for gap in self.outlook.gaps]
            lines += [f"budget    {end}" for end in self.outlook.ends]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """Return the summary for notifications: names, times and kinds of error, no messages and no paths."""
        names: dict[str, list[str]] = {}
        for result in self.results:
            names.setdefault(result.status, []).append(result.name)
        counts = [f"{len(names_of)} {status} ({', '.join(names_of)})" for status, names_of in names.items()]
        counts += [f"{len(self.problems)} problem(s) of the calendar"] * bool(self.problems)
        occurrences = [
            {
                "name": result.name,
                "due": result.due.isoformat(),
                "status": result.status,
                "error": result.error,
                "attempts": result.attempts,
            }
            for result in self.results
        ]
        return {
            "format": "odsynth due 1",
            "text": f"odsynth due {self.calendar}: {', '.join(counts) or 'nothing is due'}",
            "calendar": self.calendar,
            "time": self.now.isoformat(timespec="seconds"),
            "failed": self.failed,
            "problems": len(self.problems),
            "occurrences": occurrences,
        }
