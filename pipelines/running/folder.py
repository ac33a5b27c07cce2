"""The private folder in which a run works, and from which it can be continued.

    .NAME.unfinished/               mode 0700, beside the output folder NAME
        public/                     what will be published; the plan is there from the beginning
        confidential/state.json     what was begun: configuration, plan, certificate, inputs, debit
        confidential/run.key        the run key, until the release is final; where a witness is named, until
                                    it is sealed
        confidential/log.jsonl      what happened when
        confidential/run.json       the summary, written when the release has passed its checks
        confidential/accuracy.json  the forecast of the plan, from when noisy counts correct it
        confidential/totals.json    with a public table of workplaces: how the jobs differ from it
        homes/                      the confidential homes of each batch of pools, and counts of further
                                    measured tables, complete before state.json; where workplaces are
                                    measured, whole records, which are sorted into batches then
        parts/                      what each finished batch measured and wrote, and the estimate
    tiers/TIER/                 public/ and parts/ of each weaker tier

Key, state, summary and parts get their names when they are whole and on the disk; plan and homes are on the
disk before `state.json` is. A folder without `state.json` was abandoned before anything was paid: `odsynth
runs` lists it, and the next call (`run`, `resume`) throws it away. One with it is a run that can be resumed
with the same result, byte for byte; one with `run.json`, whose public files are on the disk too, needs only
to be tidied and put in place.
"""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.release.certificate import Certificate, Software, parse_certificate, this_software
from pipelines.storage.durable import erase, hold_lock, sync, sync_tree, write_whole
from pipelines.storage.errors import refuse_no_folder, what_is_at

_LOG = logging.getLogger(__name__)
_FORMAT = "odsynth run 1.0"
TIERS = "tiers"
"""Folder of the weaker tiers of a run, beside that of the strongest."""


class BusyError(ConfigError):
    """Another process is making this release."""


@dataclass(frozen=True)
class Refined:
    """A finished release that another one refines."""

    debit: str  # the entry of the ledger that paid for it
    certificate: Certificate
    inputs: dict[str, str]  # as of its run

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {
            "debit": self.debit,
            "certificate": self.certificate.model_dump_json(),
            "inputs": self.inputs,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Refined:
        """Read what `to_json` returned."""
        return cls(data["debit"], parse_certificate(data["certificate"]), data["inputs"])


@dataclass(frozen=True)
class RunState:
    """What was begun; everything but the key that a run needs to go on."""

    config: ReleaseConfig
    certificate: Certificate  # of the release to come; a resumed run writes the same
    inputs: dict[str, str]  # SHA-256 of each confidential file, by path
    secure: bool  # whether the key came from the operating system
    name: str  # name of the run in the ledger, of which there is one
    # The entry of the ledger that paid for the run; None before it is made, and without a ledger.
    debit: str | None = None
    rows: dict[str, int] = field(default_factory=dict)  # rows of each confidential file, by path
    tiers: dict[str, Certificate] = field(default_factory=dict)  # of the releases of weaker tiers, by name
    refines: Refined | None = None


def other_version(
    place: Path, begun: Software | None, otherwise: str = "give the run up with odsynth runs --wipe"
) -> ConfigError:
    """Return the error of a run that this version cannot go on with; it names both versions and commits."""
    now, rule, fix = this_software(), "begun by another version of the program", "use that version"
    if begun is None:
        rule = f"damaged, or {rule}"
    elif begun == now:
        rule, fix = "damaged, and not what this version wrote when it began the run", "put back a copy of it"
    else:
        rule += f", {begun.words}"
        had, has = begun.dependencies, now.dependencies
        names = sorted(name for name in {*had, *has} if had.get(name) != has.get(name))
        if names:
            changed = (f"{name} {had.get(name, 'none')} (now {has.get(name, 'none')})" for name in names)
            rule += f", with {', '.join(changed)}"
    return ConfigError(f"{place}: {rule}; this is {now.words}. Fix: {fix}, or {otherwise}")


def refuse_existing(out: Path) -> None:
    """Refuse an output folder whose name is taken; the error names what is there."""
    if os.path.lexists(out):
        fix = "move it away, or"
        if RunFolder(out).checked:
            fix = "keep it (odsynth resume ends its run, if that was killed), and"
        raise ConfigError(
            f"{out}: the output folder exists: it is {what_is_at(out)}. Fix: {fix} choose another with --out"
        )


class RunFolder:
    """Paths inside the private folder of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.public, self.confidential = folder, folder / "public", folder / "confidential"
        self.homes, self.parts = folder / "homes", folder / "parts"
        self.workplaces = self.parts / "workplaces"  # of a run that measures them, as they are published
        self.scratch = folder / "scratch"  # what a cluster of the run's own keeps on disk
        self.events, self.summary = self.confidential / "log.jsonl", self.confidential / "run.json"
        self.forecast = self.confidential / "accuracy.json"
        self._state, self._key = self.confidential / "state.json", self.confidential / "run.key"
        self._lock = self.confidential / "lock"

    @classmethod
    def of(cls, out: Path) -> RunFolder:
        """Return the staging folder that belongs to an output folder."""
        return cls(out.parent / f".{out.name}.unfinished")

    def tier(self, name: str) -> RunFolder:
        """Return the folder of a weaker tier."""
        return RunFolder(self.folder / TIERS / name)

    @property
    def begun(self) -> bool:
        """Whether a run got as far as being paid for, and can be resumed."""
        return self._state.is_file()

    @property
    def has_key(self) -> bool:
        """Whether the run key is there."""
        return self._key.is_file()

    @property
    def checked(self) -> bool:
        """Whether the release is complete and has passed its checks."""
        return self.summary.is_file()

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """Make the folder, and remove it if the run does not get as far as `save`."""
        made = [folder for folder in self.folder.parents if not folder.exists()]
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            for folder in (self.folder, self.confidential):
                refuse_no_folder(folder, ConfigError)
                folder.mkdir(mode=0o700, exist_ok=True)
            self._must_be_ours()
            with self._locked():
                if self.begun:
                    by = f", begun by {software.words}" if (software := self.software()) else ""
                    raise ConfigError(
                        f"{self.folder}: an unfinished run of this release is there{by}. Fix: continue it "
                        "with odsynth resume, or drop it with odsynth runs --wipe (what it has spent stays "
                        "spent)"
                    )
                self._clear()
                try:
                    for folder in (self.public, self.parts, self.homes):
                        folder.mkdir(mode=0o700)
                    yield
                finally:
                    if self.folder.exists() and not self.begun:
                        self._remove_abandoned()
        finally:
            if not self.folder.exists():
                with suppress(OSError):  # somebody else uses it by now, or the release is in it
                    for folder in made:
                        folder.rmdir()

    @contextmanager
    def again(self) -> Iterator[RunState]:
        """Open the folder of an unfinished run."""
        if not self.begun:
            left = ""
            if self.confidential.is_dir():  # abandoned: it may hold homes
                self.wipe(begun=False)
                left = ", and the rest of a run that was stopped before it paid is removed"
            raise ConfigError(
                f"{self.folder}: there is no unfinished run here{left}. Fix: begin a run with odsynth run"
            )
        self._must_be_ours()
        with self._locked():
            yield self.load()

    def wipe(self, *, begun: bool = True) -> None:
        """Remove the folder, the key overwritten first: the run is given up, whatever it has spent.

        `begun` says that a run that can be resumed may be in it.
        """
        self.confidential.mkdir(mode=0o700, exist_ok=True)
        self._must_be_ours()
        with self._locked():
            if self.begun and not begun:
                fix = "list the runs again with odsynth runs"
                raise ConfigError(f"{self.folder}: a run was begun here meanwhile. Fix: {fix}")
            self._state.unlink(missing_ok=True)  # from here on it cannot be resumed, whatever comes
            self.forget_key()
            for folder in (self.homes, self.folder):  # the lock goes after the homes
                if folder.exists():
                    shutil.rmtree(folder)

    @property
    def at_work(self) -> bool:
        """Whether a process works in the folder."""
        if not self._lock.exists():
            return False
        with hold_lock(self._lock) as free:
            return not free

    def _must_be_ours(self) -> None:
        """Refuse a folder that somebody else made or can write to: they could put their own key into it."""
        for folder in (self.folder, self.confidential):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                fix = "remove it"
                if self.begun:
                    fix = "chmod -R go= and resume the run, if it is yours; otherwise remove it"
                raise ConfigError(
                    f"{folder}: this must be a folder of yours that nobody else can use; it is "
                    f"{what_is_at(folder)}, of user {status.st_uid} and mode "
                    f"{stat.S_IMODE(status.st_mode):o}. Fix: {fix}"
                )

    def _remove_abandoned(self) -> None:
        """Remove the folder; where the system refuses, say that homes may be left."""
        try:
            shutil.rmtree(self.folder)
        except OSError as error:  # nor may this hide why the run was abandoned
            _LOG.error(
                "%s: this run is abandoned, and its folder, which may hold confidential homes, cannot be "
                "removed (%s). Fix: see to that, then remove it with odsynth runs --wipe",
                self.folder,
                error.strerror,
            )

    def _clear(self) -> None:
        """Throw away what an abandoned run left."""
        for path in (*self.folder.iterdir(), *self.confidential.iterdir()):
            if path not in (self.confidential, self._lock):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the folder."""
        with hold_lock(self._lock) as free:
            if not free:
                raise BusyError(f"{self.folder}: another process is making this release; wait for it to end")
            yield

    # --- what is kept

    def save(self, state: RunState, key: synth.RunKey | None = None) -> None:
        """Write the key and, last, the state: from here on the run can be resumed.

        Without a key, the one that is there stays.
        """
        if key is not None:
            write_whole(self._key, key.secret())
            sync_tree(self.folder)  # plan and homes
            sync(self.folder.parent)
        document = {
            "format": _FORMAT,
            "config": state.config.model_dump(mode="python"),
            "certificate": state.certificate.model_dump_json(),
            "inputs": state.inputs,
            "secure": state.secure,
            "name": state.name,
            "debit": state.debit,
            "rows": state.rows,
            "tiers": {name: certificate.model_dump_json() for name, certificate in state.tiers.items()},
            "refines": None if state.refines is None else state.refines.to_json(),
        }
        write_whole(self._state, json.dumps(document, default=str, indent=1) + "\n")

    def load(self) -> RunState:
        """Read what was begun, by this version or an earlier one (which may be needed to resume it)."""
        try:
            document = json.loads(self._state.read_bytes())
            config = document["config"]
            if config["run"].get("confidential_store", "") is None:  # a key that there was
                del config["run"]["confidential_store"]
            if document["format"] != _FORMAT:
                raise ValueError("another format")
            return RunState(
                config=ReleaseConfig.model_validate(config, context={"folder": Path("/")}),
                certificate=parse_certificate(document["certificate"]),
                inputs=document["inputs"],
                secure=document["secure"],
                name=document["name"],
                debit=document["debit"],
                rows=document["rows"],
                refines=None if (refines := document.get("refines")) is None else Refined.from_json(refines),
                tiers={name: parse_certificate(text) for name, text in document.get("tiers", {}).items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise other_version(self._state, self.software()) from error

    def software(self) -> Software | None:
        """Return what began the run, as far as its state can be read, whatever its format."""
        try:
            document = json.loads(self._state.read_bytes())
            stated = json.loads(document["certificate"])["software"]
            return Software.model_validate({name: stated[name] for name in Software.model_fields})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def key(self, state: RunState) -> synth.RunKey:
        """Read the run key."""
        return synth.RunKey(self._key.read_bytes(), secure=state.secure)

    def forget_key(self) -> None:
        """Overwrite and remove the run key."""
        erase(self._key)

    def add_homes(self, batch: int, homes: NDArray[np.int32]) -> None:
        """Keep homes of a batch, after those of other parts of the input.

        **Confidential**, of shape (3, n): pool, work block and home block of each job.
        """
        with self.homes_of(batch).open("ab") as file:
            np.save(file, homes)

    def add_records(self, records: geo_data.JobRecords) -> None:
        """Keep whole records until workplaces are measured, after those of other parts of the input.

        **Confidential.**
        """
        with self.records.open("ab") as file:
            np.save(
                file, np.stack([records.work, records.home, *records.attributes.values()]).astype(np.int32)
            )

    def read_records(self, names: Sequence[str]) -> Iterator[geo_data.JobRecords]:
        """Yield what `add_records` kept, with attributes of these names, part after part."""
        with self.records.open("rb") as file:
            while file.tell() < self.records.stat().st_size:
                work, home, *codes = np.load(file)
                yield geo_data.JobRecords(work, home, dict(zip(names, codes, strict=True)))

    def keep_counts(self, table: int, counts: NDArray[np.int64]) -> None:
        """Keep the counts of a further measured table until they get their noise.

        **Confidential**: jobs of every cell of the table with this number, from 1.
        """
        np.save(self.homes / f"table-{table}.npy", counts)

    def read_counts(self, table: int) -> NDArray[np.int64]:
        """Return what `keep_counts` kept."""
        counts: NDArray[np.int64] = np.load(self.homes / f"table-{table}.npy")
        return counts

    def note_differences(self, counts: dict[str, int]) -> None:
        """Keep how the jobs differ from a public table of workplaces.

        **Confidential.**
        """
        write_whole(self.confidential / "totals.json", json.dumps(counts, indent=1) + "\n")

    def read_homes(self, batch: int) -> NDArray[np.int32]:
        """Return the homes of a batch, part after part, shape (3, n)."""
        parts, file = [], io.BytesIO(self.homes_of(batch).read_bytes())
        while file.tell() < file.getbuffer().nbytes:
            parts.append(np.load(file))
        return np.concatenate(parts, axis=1)

    @property
    def records(self) -> Path:
        """The file with whole records."""
        return self.homes / "records.npy"

    def homes_of(self, batch: int) -> Path:
        """Return the file with the homes of a batch."""
        return self.homes / f"{batch:06}.npy"

    def abandon(self) -> None:
        """Give up a run that has not been paid for: `fresh` then throws the folder away."""
        self._state.unlink()

    def tidy(self, *, keep_key: bool = False) -> None:
        """Remove what a finished release does not need; only a witness draws from it again, by its key."""
        if not keep_key:
            self.forget_key()
        of_tiers = self.folder.glob(f"{TIERS}/*/*")
        others = [path for path in of_tiers if path.name != self.public.name]
        partial = self.confidential.glob(".partial-*")
        for folder in (self.homes, self.parts, self.scratch, *partial, *others):
            if folder.exists():  # an error ends the run, which can then be resumed: no home may stay
                shutil.rmtree(folder)
