"""The verbs around a release: what was spent, what is published, what was fetched."""

from __future__ import annotations

import gzip
import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path

import click.testing
import pytest

import pipelines
import synth
from helpers import forge
from pipelines.cli.main import main
from pipelines.release.signing import generate_keys, signature_in_words
from synth.gaussian.composition import gaussian_epsilon_of

pytestmark = pytest.mark.quick


@pytest.fixture
def invoke() -> Callable[..., click.testing.Result]:
    return lambda *arguments: click.testing.CliRunner().invoke(main, [str(a) for a in arguments])


def test_the_ledger_is_shown_checked_and_exported(
    config_text: Callable[..., str], tmp_path: Path, invoke: Callable[..., click.testing.Result]
) -> None:
    book = tmp_path / "book.sqlite"
    budget = {"file": str(book), "data_set": "jobs", "period": "2026", "epsilon": "10", "delta": "1e-3"}
    (tmp_path / "small.toml").write_text(config_text({"ledger": budget}))
    done = invoke("run", tmp_path / "small.toml")
    assert "Ledger      debit " in done.stdout
    shown = invoke("ledger", "show", book).stdout
    assert shown.startswith("jobs, 2026: 1 release(s), 0 unfinished; spent epsilon 8.")
    assert "left epsilon 1.4" in shown
    of_sum, together, release = shown.splitlines()[1:]
    assert "homes inside " in of_sum
    assert re.match(
        r"  together, .* 1 job record.s., at delta 0\.001: epsilon 8\.\d* by plain sums; ", together
    )
    assert re.search(
        r"20\d\d-\d\d-\d\dT.*, 2026: epsilon 8\..*, delta .*; homes inside .*; finished$", release
    )
    checked = invoke("ledger", "verify", book, "--release", tmp_path / "release")
    assert checked.stdout.startswith("ok  3 entries, head ")
    debit = done.stdout.partition("Ledger      debit ")[2].split()[0]
    assert invoke("ledger", "verify", book, "--witness", debit).exit_code == 0
    unknown = invoke("ledger", "verify", book, "--witness", debit, "--witness", "a" * 64)
    assert "1 of 2 known heads are not in the ledger" in unknown.stderr
    lines = [json.loads(line) for line in invoke("ledger", "export", book).stdout.splitlines()]
    assert [line["kind"] for line in lines] == ["budget", "debit", "finished"]
    assert invoke("ledger", "export", "--format", "csv", book).stdout.count("\n") == 4
    again = invoke("run", tmp_path / "small.toml", "--out", tmp_path / "second")
    assert again.exit_code == 1
    assert "does not allow this release" in again.stderr
    assert "Continue with" not in again.stderr
    book.write_bytes(book.read_bytes()[:4096] + b"\0" * 4096)
    damaged = invoke("ledger", "verify", book)
    assert damaged.exit_code == 1
    assert damaged.stderr.startswith("Error: ")
    missing = invoke("ledger", "verify", book, "--release", tmp_path)
    assert "no release with its confidential folder is there" in missing.stderr


def test_the_ledger_says_which_account_is_better(
    tmp_path: Path, invoke: Callable[..., click.testing.Result]
) -> None:
    """By mechanisms, deltas, numbers of records and years; what it says is what `synth.Cost` has."""
    book = tmp_path / "book.sqlite"
    costs: dict[str, list[synth.Cost]] = {"jobs": [], "wages": []}
    budgets = {
        "jobs": pipelines.Budget(None, Fraction("1e-4"), rho=Fraction(2)),
        "wages": pipelines.Budget(Fraction(10), Fraction(0)),
    }
    paid = [
        ("jobs", Fraction(2), Fraction("1e-6"), Fraction(1, 20), 2016),
        *[("jobs", Fraction(2), Fraction("1e-6"), Fraction(1, 20), 2026)] * 4,
        *[("wages", Fraction(4), Fraction(0), None, 2026)] * 2,
    ]
    for name, epsilon, delta, rho, year in paid:
        charge = pipelines.Charge(name, epsilon, delta, "0" * 64, "r", rho=rho)
        at = datetime(year, 1, 2, tzinfo=UTC)
        pipelines.Ledger(book).debit(charge, budgets[name], now=at)
        costs[name].append(synth.Cost.of(epsilon, delta, rho))

    def shown(*options: str) -> list[str]:
        lines = invoke("ledger", "show", book, *options).stdout.splitlines()
        return [line for line in lines if not re.match(r"  20\d\d", line)]

    jobs, of_jobs, jobs_together, wages, _, wages_together = shown("--delta", "1e-5")
    assert "spent epsilon 10, delta 0.000005; rho 0.25, delta 0; left rho 1.75, delta 0.0001 of rho 2" in jobs
    assert of_jobs == "  the sum is a guarantee of: homes anywhere, at most 1 job record(s) a person"
    by_rho = synth.Cost.of_all(costs["jobs"]).epsilons_at(Fraction("1e-5"))[1]
    by_noise = gaussian_epsilon_of([Fraction(1, 20)] * 5, Fraction("1e-5"))
    assert by_rho is not None
    assert by_noise is not None
    assert jobs_together.endswith(
        f"at delta 0.00001: epsilon 10 by plain sums; epsilon {synth.decimal_up(by_rho, 6)} by zCDP; "
        f"epsilon {synth.decimal_up(by_noise, 6)} by Gaussian noise; Gaussian noise is better"
    )
    assert "left epsilon 2, delta 0 of epsilon 10, delta 0" in wages
    assert wages_together.endswith("by zCDP; the sums are better")
    jobs, _, jobs_together, _, _, wages_together = shown("--records", "3")
    assert "at most 3 job record(s), at delta 0.0001: epsilon " in jobs_together
    assert "zCDP" in jobs_together
    assert wages_together.endswith("at delta 0: epsilon 24 by plain sums")
    assert shown("--delta", "0")[2].endswith("no epsilon that can be proved; choose a larger delta")
    last = shown("--years", str(datetime.now(UTC).year - 2017))[0]
    assert re.search(
        r"^jobs, last \d+ year\(s\): 4 release\(s\), 4 unfinished; spent epsilon 8, .* delta 0$", last
    )
    refused = invoke("ledger", "show", book, "--delta", "1")
    assert "'1' is not in [0, 1)" in refused.stderr


def test_the_ledger_shows_a_window_of_years(
    tmp_path: Path, invoke: Callable[..., click.testing.Result]
) -> None:
    """Beside the budget for ever, with what is left today; `--years` asks about others."""
    book, charge = tmp_path / "book.sqlite", partial(pipelines.Charge, "jobs", delta=Fraction(0))
    life, window = (pipelines.Budget(Fraction(e), Fraction(0), years=y) for e, y in ((20, None), (5, 3)))
    for epsilon, year in ((4, 2001), (3, datetime.now(UTC).year - 1)):
        paid = charge(epsilon=Fraction(epsilon), plan_sha256="0" * 64, release="r")
        pipelines.Ledger(book).debit(paid, life, [window], now=datetime(year, 6, 1, tzinfo=UTC))
    lines = [
        line
        for line in invoke("ledger", "show", book).stdout.splitlines()
        if "jobs" in line or "up to" in line
    ]
    assert re.match(
        r"jobs: 2 release.*; spent epsilon 7, .*; left epsilon 13, delta 0 of epsilon 20", lines[0]
    )
    assert re.match(
        r"jobs, any 3 year\(s\): 1 release.*spent epsilon 3, .*; left epsilon 2, delta 0 of", lines[1]
    )
    assert lines[2] == "  in the 3 year(s) up to today; in more years releases may cost more together"
    assert invoke("ledger", "show", book, "--years", "9").stdout.count("jobs") == 1


def test_a_release_is_published_listed_corrected_and_withdrawn(
    small_release: pipelines.Release, tmp_path: Path, invoke: Callable[..., click.testing.Result]
) -> None:
    target = tmp_path / "site"
    first = invoke("publish", small_release.out, target)
    assert first.exit_code == 0, first.stderr
    assert first.stdout.startswith("Published: ")
    assert invoke("publish", small_release.out, target).stdout.startswith("Already published: ")
    name, version, status = invoke("published", target).stdout.split(",")[0].replace(":", "").split()
    assert status == "complete"
    assert not list(target.rglob("run.json"))
    assert invoke("erratum", target, name, version, "Column S000 is explained wrongly.").exit_code == 0
    assert invoke("withdraw", target, name, version, "The wrong year.").exit_code == 0
    listed = invoke("published", target).stdout
    assert "withdrawn" in listed
    assert "The wrong year." in listed
    assert "Column S000 is explained wrongly." in listed
    refused = invoke("withdraw", target, name, "nothing", "x")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: ")


def test_a_corrected_release_is_a_version_of_the_same_title(
    small_release: pipelines.Release,
    config_text: Callable[..., str],
    tmp_path: Path,
    invoke: Callable[..., click.testing.Result],
) -> None:
    config, out = tmp_path / "right.toml", tmp_path / "right"
    config.write_text(config_text({"release.name": "Right title"}), encoding="utf-8")
    done = invoke("correct", small_release.public, config, "--because", "It was wrong.", "--out", out)
    assert done.exit_code == 0, done.stderr
    assert "release.name" in done.stdout
    for folder in (small_release.out, out):
        assert invoke("publish", folder, tmp_path / "site").exit_code == 0
    versions = pipelines.published(tmp_path / "site")
    assert len({version.version for version in versions}) == 2
    assert {version.name for version in versions} == {"demo-region-2019-all-jobs"}
    again = invoke("correct", small_release.public, config, "--because", "It was wrong.", "--out", out)
    assert again.stderr.startswith("Error: ")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A small copy of the layout in which LODES is published."""
    root = tmp_path / "www"
    files = ["ri_xwalk.csv.gz", "od/ri_od_main_JT00_2019.csv.gz", "od/ri_od_aux_JT00_2019.csv.gz"]
    for name in files:
        path = root / "LODES7" / "ri" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(name.encode()))
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()


def test_lodes_and_other_tables_are_fetched(
    server: str, tmp_path: Path, invoke: Callable[..., click.testing.Result]
) -> None:
    folder = tmp_path / "data"
    options = ["--state", "ri", "--year", 2019, "--lodes", 7, "--base-url", server, "--to", folder]
    done = invoke("fetch", "lodes", *options)
    assert done.exit_code == 0, done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"main", "aux", "crosswalk"}
    assert gzip.decompress((folder / "ri_xwalk.csv.gz").read_bytes()) == b"ri_xwalk.csv.gz"
    one = invoke("fetch", "table", f"{server}LODES7/ri/ri_xwalk.csv.gz", "--to", tmp_path / "other")
    assert one.stdout.strip() == str(tmp_path / "other" / "ri_xwalk.csv.gz")
    options[3] = 2018
    absent = invoke("fetch", "lodes", *options)
    assert absent.exit_code == 1
    assert "Traceback" not in absent.stderr


def test_files_of_other_versions_are_noted_where_they_are_verified_and_published(
    public_copy: Path,
    tmp_path_factory: pytest.TempPathFactory,
    invoke: Callable[..., click.testing.Result],
) -> None:
    """What hides in the head of a gzip file is in no row, and nobody may be told that nothing is there."""
    csv = next(public_copy.glob("*.csv.gz"))
    data = csv.read_bytes()
    csv.write_bytes(data[:3] + b"\x10" + data[4:10] + b"home of worker 7\0" + data[10:])
    certificate = json.loads((public_copy / "certificate.json").read_text(encoding="utf-8"))
    certificate["software"]["dependencies"]["zlib"] = "9.9.9"
    forge(public_copy, certificate)
    done = invoke("verify", public_copy)
    assert done.exit_code == 0, done.output
    assert "note  bytes: NOT COMPARED in 1 file(s)" in done.stdout
    assert done.stdout.rstrip().endswith("carried out here; see the note; nobody has signed it.")
    done = invoke("publish", public_copy.parent, tmp_path_factory.mktemp("published"))
    assert f"whether something is hidden beside them: {csv.name}" in done.stderr


def test_publishing_warns_of_a_release_that_nobody_signed(
    small_release: pipelines.Release, tmp_path: Path, invoke: Callable[..., click.testing.Result]
) -> None:
    """And refuses it where a signer is expected."""
    done = invoke("publish", small_release.out, tmp_path / "published")
    assert done.exit_code == 0, done.output
    assert f"WARNING: {signature_in_words(signed=False)}" in done.stderr
    _, key = generate_keys(tmp_path / "keys")
    refused = invoke("publish", small_release.out, tmp_path / "elsewhere", "--key", key)
    assert refused.exit_code == 1
    assert "signing-key.pub" in refused.stderr
    assert not (tmp_path / "elsewhere").exists()
