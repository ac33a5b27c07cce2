"""A run: plan, certify, sample, write, check, and only then put the release in its place."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.certificate import Certificate, make_certificate
from pipelines.config import ConfigError, ReleaseConfig
from pipelines.plan_files import save_plan, sha256_of
from pipelines.planning import ReleasePlan, make_plan
from pipelines.public_inputs import job_source
from pipelines.release_files import write_public
from pipelines.sampling import sample_release
from pipelines.signing import read_private_key
from pipelines.verification import VerificationError, verify

__all__ = ["Release", "certified", "run"]


@dataclass(frozen=True)
class Release:
    """A finished release.

    Attributes
    ----------
    out : Path
        Its folder, with ``public`` and ``confidential``.
    plan : ReleasePlan
    certificate : Certificate
    """

    out: Path
    plan: ReleasePlan
    certificate: Certificate

    @property
    def public(self) -> Path:
        """The folder that may be published."""
        return self.out / "public"


def certified(release: ReleasePlan) -> synth.Guarantee:
    """Certify a plan and refuse one that costs more than was requested.

    Raises
    ------
    ValueError
        If the certified totals exceed the requested ones.
    """
    guarantee = release.mechanism.certify(release.plan)
    if not guarantee.meets(release.plan):
        raise ValueError("the certified totals exceed what was requested; nothing was drawn")
    return guarantee


def run(
    config: ReleaseConfig,
    *,
    key: synth.RunKey | None = None,
    report: Callable[[str], None] | None = None,
) -> Release:
    """Make a release.

    Everything is written to a private staging folder beside the output folder and checked there; one
    rename puts it in place. If anything fails, the staging folder is removed.

    Parameters
    ----------
    config : ReleaseConfig
    key : synth.RunKey, optional
        For tests. By default a new key from the operating system, destroyed at the end.
    report : callable, optional
        Told each step as it begins; a progress bar is shown too when given.

    Returns
    -------
    Release

    Raises
    ------
    ConfigError
        If the output folder exists.
    geo_data.InputError
        If an input is unusable.
    synth.BudgetTooSmallError
        If the budget certifies no prior.
    SigningError
        If the signing key cannot be used.
    """
    out = config.release.out
    if out.exists() or out.is_symlink():
        raise ConfigError([f"{out}: the output folder exists. Remove it, or choose another with --out"])
    say = report or (lambda _: None)
    clock = _Clock(say)
    signing_key = read_private_key(config.signature.key) if config.signature else None
    with clock.step("Reading public inputs and planning"):
        release = make_plan(config)
    with clock.step("Certifying the plan"):
        guarantee = certified(release)
    key = key or synth.RunKey.generate()
    try:
        with _staging(out) as staging:
            public, confidential, parts = (staging / name for name in ("public", "confidential", "parts"))
            for folder in (public, confidential, parts):
                folder.mkdir(mode=0o700)
            plan_sha256 = save_plan(release, public / "plan")
            certificate = make_certificate(release, guarantee, plan_sha256, secure=key.secure)
            with clock.step("Reading the confidential origins"):
                records = job_source(config, release.geography).records(config.plan.pool_by)
                homes = _grouped(config, release, records)
                del records
            with clock.step(f"Drawing {release.plan.pools.n_records:,} synthetic workers"):
                written = sample_release(
                    release,
                    homes,
                    key,
                    parts,
                    createdate=certificate.created[:10].replace("-", ""),
                    with_jobs=config.jobs.format == "microdata",
                    progress=report is not None and sys.stderr.isatty(),
                )
                del homes
            with clock.step("Writing the release"):
                write_public(release, certificate, written, public, signing_key)
                shutil.rmtree(parts)
            with clock.step("Checking the release"):
                _check(public, certificate)
            _log(confidential / "run.json", config, clock)
            for path in (public, *public.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
            staging.chmod(0o755)
            if out.exists():
                raise ConfigError([f"{out}: the output folder appeared during the run; nothing was replaced"])
            staging.rename(out)
    finally:
        key.destroy()
    return Release(out, release, certificate)


def _grouped(config: ReleaseConfig, release: ReleasePlan, records: geo_data.JobRecords) -> NDArray[np.int32]:
    try:
        return geo_data.group_records(release.pools, release.geography, records)
    except ValueError:
        raise geo_data.InputError(
            config.jobs.file,
            "the jobs are not those that the plan was made for: the file changed during the run",
            cure="run again when nothing writes to the file",
        ) from None


def _check(public: Path, certificate: Certificate) -> None:
    """Verify the staged release. One that is not for release is written too, and says so everywhere."""
    try:
        for _ in verify(public):
            pass
    except VerificationError as error:
        if error.check != "for release" or certificate.for_release:
            raise


@contextmanager
def _staging(out: Path) -> Iterator[Path]:
    made = [folder for folder in out.parents if not folder.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{out.name}.partial-", dir=out.parent))  # mode 0700
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)  # gone already when it was put in place
    finally:
        if not out.exists():
            with suppress(OSError):  # somebody else uses it by now
                for folder in made:
                    folder.rmdir()


class _Clock:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        self._say(f"{what} ...")
        begin = time.monotonic()
        yield
        self.seconds[what] = round(time.monotonic() - begin, 3)


def _log(path: Path, config: ReleaseConfig, clock: _Clock) -> None:
    """Keep what an auditor inside the agency needs: which input it was, and how long each step took."""
    text = json.dumps(
        {"jobs_sha256": sha256_of(config.jobs.file), "seconds": clock.seconds, "process": os.getpid()},
        indent=1,
    )
    path.write_text(text + "\n", encoding="utf-8")
    path.chmod(0o600)
