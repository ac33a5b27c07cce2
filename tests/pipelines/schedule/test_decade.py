"""Ten years of a calendar, with real runs: what they cost together, and a kill in the sixth."""

from __future__ import annotations

import gzip
import io
import math
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomlkit
from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism

import pipelines
import synth
from helpers import KILLED, LOADED, SCHEDULE, with_values
from pipelines.ledger.budgets import gaussian_epsilon
from synth.gaussian.composition import gaussian_rho_within

from ..running.helpers import but_for_the_debit
from .conftest import WITHOUT
from .helpers import Office
from .test_shares import MEASURED

pytestmark = pytest.mark.slow
DELTA = Fraction("1e-5")
YEARS = range(2021, 2031)
# A call of `due` in each of some years, of which the first may be killed and repeated. Key and time of
# certificates are fixed, so that series can be compared.
SCRIPT = f"""{KILLED}
import sys
from datetime import datetime, UTC
import pipelines, synth, pipelines.running.run, pipelines.running.report
from pipelines.schedule.due import due
{LOADED.format(config='Path(sys.argv[1]).with_name("base.toml")')}
pipelines.running.report.draw_cells = lambda _, path: path.write_bytes(b"no picture")
pipelines.running.run.time_now = lambda: "2026-01-02T03:04:05Z"
synth.RunKey.generate = lambda: synth.RunKey.from_seed(7)

folder, moment, *years = sys.argv[1:]
for year in years:
    for armed in filter(None, (moment, "-")):
        if os.fork() == 0:
            if armed != "-":
                arm(armed)
            summary = due(folder, now=datetime(int(year), 3, 1, tzinfo=UTC))
            os._exit(summary.exit_code)
        status = os.wait()[1]
        print("killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)
    moment = ""
"""


def jobs_of(year: int, first: bytes) -> bytes:
    """The jobs of a year: those of the first, of whom one in ten has moved since."""
    jobs = pd.read_csv(io.BytesIO(gzip.decompress(first)), dtype={"w_geocode": str, "h_geocode": str})
    rng = np.random.default_rng(year)
    moved = rng.random(len(jobs)) < 0.1
    jobs.loc[moved, "h_geocode"] = rng.permutation(jobs.loc[moved, "h_geocode"].to_numpy())
    counts = jobs.columns.difference(["w_geocode", "h_geocode", "createdate"])
    summed = jobs.groupby(["w_geocode", "h_geocode", "createdate"], as_index=False)[[*counts]].sum()
    return gzip.compress(summed[jobs.columns].to_csv(index=False).encode())


def decade(folder: Path, tables: dict[str, Any], first: bytes) -> Office:
    """A calendar of ten years that share a budget in rho."""
    rho = gaussian_rho_within(Fraction("8.6"), DELTA, len(YEARS))
    world = Office(folder, with_values(tables, WITHOUT, MEASURED), rho=synth.decimal_down(rho), delta="0")
    base = tomlkit.parse((world.folder / "base.toml").read_text()).unwrap()
    del base["ledger"]["epsilon"]
    (world.folder / "base.toml").write_text(tomlkit.dumps(base))
    world.write(ri="shares = 10\n" + SCHEDULE)
    for year in YEARS:
        world.deliver(year, content=jobs_of(year, first))
    return world


def release(world: Office, years: range, moment: str = "") -> list[str]:
    """Make the releases of some years, each in March of the next one; what the calls of `due` ended with."""
    calls = [str(year + 1) for year in years]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(world.calendar), moment, *calls], capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the calendar after the fifth year."""
    return tmp_path_factory.mktemp("half") / "copy"


@pytest.fixture(scope="module")
def whole(
    config_tables: dict[str, Any],
    small_region: dict[str, Path],
    half: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Office:
    folder = tmp_path_factory.mktemp("decade")
    world = decade(folder, config_tables, small_region["od"].read_bytes())
    assert release(world, YEARS[:5]) == ["0"] * 5
    shutil.copytree(world.folder, half)
    assert release(world, YEARS[5:]) == ["0"] * 5
    return world


def test_ten_years_cost_what_the_ledger_says(whole: Office) -> None:
    """Each is certified for a tenth; the epsilons of one and of two records beside `dp_accounting`."""
    releases = [pipelines.open_release(whole.out / str(year)) for year in YEARS]
    assert {release.certificate.mechanism for release in releases} == {"gaussian"}
    assert all("one of 10 releases that share a budget in rho" in " ".join(r.plan.notes) for r in releases)
    rhos = [synth.exact(release.certificate.record_level.rho or "0") for release in releases]
    (account,) = whole.book.accounts()
    budget = account.budget.rho
    assert budget is not None
    assert account.spent.rho == sum(rhos) <= budget
    assert account.spent.rho > budget * Fraction(999_999, 1_000_000)
    assert [entry.rho for entry, _ in account.releases] == rhos
    assert whole.paid() == (10, 0)
    for records in (1, 2):
        stated = gaussian_epsilon(rhos, DELTA, records)
        by_rho = account.spent.epsilons_at(DELTA, records)[1]
        # A record of one table changes two counts by one, both records two counts by two.
        known = None
        for rho in [rho for rho in rhos for _ in range(2)]:
            one = from_discrete_gaussian_mechanism(
                math.sqrt(1 / rho), sensitivity=records, value_discretization_interval=1e-3
            )
            known = one if known is None else known.compose(one)
        assert known is not None
        assert by_rho is not None
        truth = known.get_epsilon_for_delta(float(DELTA))
        assert truth < by_rho < 1.12 * truth
        assert stated is not None
        assert truth < stated < 1.12 * truth
    told = pipelines.series(whole.calendar, years=3, now=pd.Timestamp("2031-06-01", tz="UTC").to_pydatetime())
    assert list(told.table()["paid"]) == ["no", "no", "no"]
    assert {forecast.planned for forecast in told.forecasts.values()} == {"ri-2030"}


@pytest.mark.parametrize("moment", ["after:ledger.ledger.Ledger.debit", "before:running.run.write_public"])
def test_a_kill_in_the_sixth_year_ends_in_the_same_series(
    whole: Office,
    half: Path,
    config_tables: dict[str, Any],
    small_region: dict[str, Path],
    tmp_path: Path,
    moment: str,
) -> None:
    """Which the year after it shows: the calendar goes on from the files that the kill left."""
    world = decade(tmp_path, config_tables, small_region["od"].read_bytes())
    shutil.copytree(half, world.folder, dirs_exist_ok=True)
    assert release(world, YEARS[5:7], moment) == ["killed", "0", "0"]
    assert world.paid() == (7, 0)
    (account,), (of_whole,) = world.book.accounts(), whole.book.accounts()
    assert [entry.rho for entry, _ in account.releases] == [e.rho for e, _ in of_whole.releases[:7]]
    for year in YEARS[5:7]:
        public, same = (office.out / str(year) / "public" for office in (world, whole))
        assert but_for_the_debit(public) == but_for_the_debit(same)
