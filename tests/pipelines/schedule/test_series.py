"""A calendar over many years: what its table says is what the ledger then has, by both accounts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import click.testing
import pytest
import tomlkit

import pipelines
import synth
from helpers import NOW, SCHEDULE
from pipelines.cli.main import main
from pipelines.schedule.due import due

from .helpers import Office

pytestmark = pytest.mark.quick
DELTA = Fraction(1, 10**5)


@pytest.fixture
def invoke() -> Callable[..., click.testing.Result]:
    return lambda *arguments: click.testing.CliRunner().invoke(main, [str(a) for a in arguments])


def test_the_table_is_what_is_then_paid(office: Callable[..., Office], tmp_path: Path) -> None:
    """Small releases without delta: by and by zCDP is better than the plain sums."""
    world = office(epsilon="3", delta="1e-4", rho="1/10")
    world.write(ri=SCHEDULE + '"privacy.epsilon" = "1/10"\n"privacy.delta" = "0"\n')
    before = world.tree()
    told = pipelines.series(world.calendar, years=200, now=NOW)
    assert world.tree() == before
    assert told.problems == ()
    costs, table = told.outlook.costs, told.table()
    one = synth.Cost.of(Fraction(1, 10), Fraction(0))
    paid = int(Fraction(1, 10) / one.rho)  # the budget in rho ends first
    assert list(table["paid"][: paid + 1]) == ["yes"] * paid + ["no"]
    assert told.outlook.ends[0].endswith("the first period that it does not pay")
    for number in (1, paid):
        by_sums, by_rho = synth.Cost.of_all([one] * number).epsilons_at(DELTA)
        assert by_sums is not None
        assert by_rho is not None
        assert (by_rho < by_sums) == (number == paid)
        row = table.iloc[number - 1]
        assert (row["together, by sums"], row["by zCDP"]) == (
            synth.decimal_up(by_sums, 4),
            synth.decimal_up(by_rho, 4),
        )
    assert table["left"][paid - 1].startswith("epsilon 1, delta 0.0001; rho 0.000")
    assert table["together, by sums"][paid] == table["together, by sums"][paid - 1]
    due(world.calendar, now=NOW)
    assert world.book.spent("jobs") == costs[2].spent == synth.Cost.of_all([one] * 3)
    after = pipelines.series(world.calendar, years=200, now=NOW + timedelta(hours=1)).outlook
    assert [cost.spent for cost in after.costs] == [cost.spent for cost in costs[3:]]
    told.draw(tmp_path / "series.png")
    assert (tmp_path / "series.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_says_what_cannot_be_known(
    office: Callable[..., Office], invoke: Callable[..., click.testing.Result], tmp_path: Path
) -> None:
    world = office(epsilon="20", delta="1e-4")
    path = tmp_path / "series.png"
    done = invoke("series", world.calendar, "--years", "1", "--delta", "1e-6", "--to", path)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (
        " ".join(lines[0].split())
        == "release due paid epsilon delta rho together, by sums by zCDP by Gaussian noise left"
    )
    # A release has more delta than is asked for.
    first = "ri-2021 2022-02-01 yes 8 0.00001 7.995 - - - epsilon 12, delta 0.00009"
    assert " ".join(lines[1].split()) == first
    assert [line.split()[2] for line in lines[1:4]] == ["yes", "yes", "no"]
    assert any(line.endswith("at delta 0.000001") for line in lines)
    assert any("ends before ri-2023" in line for line in lines)
    assert path.exists()
    tables = tomlkit.parse((world.folder / "base.toml").read_text()).unwrap()
    del tables["ledger"]
    (world.folder / "base.toml").write_text(tomlkit.dumps(tables))
    assert invoke("series", world.calendar).stdout.splitlines()[1].split()[2:] == [
        "-", "8", "0.00001", "7.995", "-", "-", "-", "-"
    ]  # fmt: skip
    tables["privacy"]["epsilon"] = "none"
    (world.folder / "base.toml").write_text(tomlkit.dumps(tables))
    refused = invoke("series", world.calendar)
    assert refused.exit_code == 1
    assert "problem   ri.toml" in refused.stdout
    assert invoke("series", world.calendar, "--to", tmp_path / "series.pdf").exit_code == 2


def test_a_page_says_what_is_decided(
    office: Callable[..., Office], invoke: Callable[..., click.testing.Result], tmp_path: Path
) -> None:
    """A picture inside, no path of this machine, and no markup by a name."""
    world = office(data_set="<b>jobs</b> (all)", epsilon="20", delta="1e-4", window_years=2,
                   window_epsilon="8", window_delta="1e-4")  # fmt: skip
    path = tmp_path / "series.html"
    assert invoke("series", world.calendar, "--years", "2", "--to", path).exit_code == 0
    page = path.read_text()
    assert str(world.folder) not in page
    assert "<b>jobs" not in page
    assert "&lt;b&gt;jobs&lt;/b&gt; (all) (ledger.sqlite): does not pay in time ri-2022" in page
    assert page.count("data:image/png;base64,iVBOR") == 1
    assert "<td>later</td>" in page
    assert "No release is planned yet" in page
    assert "together at most epsilon 8 at delta 0.00001. So nothing" in " ".join(page.split())
    assert "Left is then: epsilon 0, delta 0.00009." in page
    assert invoke("series", world.calendar, "--years", "2", "--to", path, "--delta", "1e-6").exit_code == 0
    assert "no epsilon that says anything can be told" in path.read_text()


def test_a_plan_tells_the_error_of_releases_like_it(world: Office, tmp_path: Path) -> None:
    """None is planned at first; with `plan` one is, and kept nowhere. A plan on record then says the same."""
    before = world.tree()
    assert pipelines.series(world.calendar, years=1, now=NOW).forecasts == {}
    told = pipelines.series(world.calendar, years=1, now=NOW, plan=True)
    assert world.tree() == before
    assert set(told.forecasts) == {"ri-2021", "ri-2022", "ri-2023", "ri-2024"}
    assert {forecast.planned for forecast in told.forecasts.values()} == {"ri-2021"}
    losses = [column for column in told.table() if column.startswith("loss: ")]
    assert len(losses) == len(told.forecasts["ri-2024"].tables)
    assert (told.table()[losses].nunique() == 1).all()
    told.write_page(tmp_path / "series.html")
    page = (tmp_path / "series.html").read_text()
    assert told.forecasts["ri-2021"].example in page
    assert " jobs is off by " in told.forecasts["ri-2021"].example
    due(world.calendar, now=NOW.replace(year=2022, month=3))
    after = pipelines.series(world.calendar, years=1, now=NOW)
    assert {forecast.planned for forecast in after.forecasts.values()} == {"ri-2021"}
    assert after.forecasts["ri-2024"].accuracy == told.forecasts["ri-2024"].accuracy
