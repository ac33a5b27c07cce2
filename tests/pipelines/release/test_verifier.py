"""verify.py, which every release carries: alone, it says of releases what `odsynth verify` says."""

from __future__ import annotations

import math
import random
import shutil
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pipelines
from helpers import alone, edit_json, load, refused, seal_again, with_values
from pipelines.config.fields import decimal_or_ratio
from pipelines.release import verify as verify_alone
from pipelines.release.description import VERIFIER
from pipelines.release.layout import verifier_bytes
from pipelines.release.signing import SIGNATURES

# What imports anything but the standard library and these fails, as where there is nothing else.
ALONE = """
import runpy, sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name[0] != "_" and name.split(".")[0] not in {{*sys.stdlib_module_names, {allowed}}}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
main = runpy.run_path({program!r})["main"]
for folder in {folders!r}:
    print(main([folder, *{options!r}]), flush=True)
"""


def run_alone(folders: list[Path], *options: str, allowed: str = '"pyarrow"') -> list[str]:
    """Run verify.py of a release where there is little else; return what it prints, and the statuses."""
    code = ALONE.format(
        allowed=allowed,
        program=str(Path(pipelines.__file__).parent / "release" / VERIFIER),
        folders=[str(folder) for folder in folders],
        options=options,
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """benchmarks/verifier.py, which makes random plans."""
    return load("benchmarks/verifier.py")


def test_a_release_carries_it_and_it_passes_alone(small_release: pipelines.Release, signed: Path) -> None:
    assert (small_release.public / VERIFIER).read_bytes() == verifier_bytes()
    said = run_alone([small_release.public, signed])
    assert [line for line in said if line.isdigit()] == ["0", "0"]
    assert sum("NOT CHECKED: the signature needs" in line for line in said) == 1
    assert sum("NOT SIGNED" in line for line in said) == 1
    assert sum(line == "ok      for release: yes" for line in said) == 2


def test_it_says_what_it_cannot_do(
    small_release: pipelines.Release, signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    key = keys[1]
    assert run_alone([signed], "--key", str(key))[-1] == "2"
    with_key = run_alone([signed], "--key", str(key), allowed='"pyarrow", "cryptography"')
    assert with_key[-1] == "0"
    assert "ok      signature: signed by the key given" in with_key
    assert run_alone([small_release.public], "--key", str(key))[-1] == "1"
    assert run_alone([tmp_path / "nowhere"])[-1] == "2"
    data = Path(shutil.copytree(small_release.public, tmp_path / "dataless"))
    for path in data.glob("demo_od_*"):
        path.unlink()
    assert run_alone([data])[-1] == "1"
    said = run_alone([data], "--certificate-only")
    assert said[-1] == "0"
    assert any("checksums, data, read-me and witnesses" in line for line in said)
    assert run_alone([data], "--certificate-only", "--key", str(key))[-1] == "1", "it is not signed"
    with pytest.raises(AssertionError, match="needs the Python library pyarrow"):
        run_alone([data], allowed="")


def test_a_signature_is_checked(signed: Path, keys: tuple[Path, Path]) -> None:
    assert alone(signed, keys[1]) is None
    for name in SIGNATURES:
        content = (signed / name).read_bytes()
        (signed / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert f"{name} is not a signature of" in str(alone(signed))
        (signed / name).write_bytes(content)


@pytest.mark.parametrize("name", ["areas.csv", "flows.csv"])
def test_areas_and_flows_are_the_sums_of_draws(public_copy: Path, name: str) -> None:
    """A correction of names may write them anew, and no witness has seen them then."""
    path = public_copy / name
    *rows, last = path.read_text(encoding="utf-8").splitlines(keepends=True)
    cells = last.split(",")
    edited = ",".join([*cells[:-3], "999.0", *cells[-2:]])
    for content, why in (
        ([*rows, edited], f"{name}: it is not what"),
        ([*rows, last, last], f"{name}: it is not what"),
        (rows, "lack rows"),
    ):
        path.write_text("".join(content), encoding="utf-8")
        seal_again(public_copy)
        assert why in str(alone(public_copy))


def test_another_copy_is_refused_and_so_is_none(public_copy: Path) -> None:
    """Somebody might run it."""
    path = public_copy / VERIFIER
    path.write_bytes(verifier_bytes() + b"print('all is well')\n")
    seal_again(public_copy)
    error = refused(public_copy)
    assert error.check == "verifier"
    assert "do not run it" in str(error)
    path.unlink()
    seal_again(public_copy)
    assert refused(public_copy).check == "texts"
    assert alone(public_copy) is not None


# What verify.py reads, and what stands for the same number or for none.
WRITTEN: dict[str, tuple[list[str], list[Any]]] = {
    "ratio": (
        ["0", "12", "43/5"],
        [
            "４",
            "4.0",
            "4/1",
            "2/4",
            "04",
            "1/0",
            "+4",
            " 4",
            "4\n",
            "1_0",
            "1e3",
            "1e999999999",
            "9" * 1001,
            "NaN",
            4,
        ],
    ),
    "configured": (
        ["8.6", "0.00001", "12", "1/3"],
        [
            "8.60",
            "43/5",
            "4/1",
            "４",
            "8.６",
            ".5",
            "5.",
            "1e-5",
            "1e999999999",
            "inf",
            "9" * 1001,
            8.6,
            True,
        ],
    ),
    "decimal": (
        ["8.6", "0", "120", "0.00000999999999999"],
        ["8.60", "08", "８.6", "NaN", "Infinity", "1e9", "1e999999999", "1.2345678901234", "-1", "1/3", None],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_number_has_one_form(name: str) -> None:
    read, (right, wrong) = getattr(verify_alone, name), WRITTEN[name]
    for text in right:
        assert read(text) == Fraction(text)
    for text in wrong:
        with pytest.raises(verify_alone.WrongError):
            read(text)


def test_a_configuration_is_read_as_the_program_writes_it() -> None:
    for value in (Fraction(43, 5), Fraction(1, 3), Fraction(1, 10**40), Fraction(10**12), Fraction(1, 2**90)):
        assert verify_alone.configured(decimal_or_ratio(value)) == value


@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "1.0", "1e9", "1e999999999", '{\n "a": 1,\n "a": 1\n}', "[" * 10**5 + "]" * 10**5],
)
def test_a_document_of_other_numbers_or_that_says_a_thing_twice_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for whole in (f"{text}\n", f"[\n {text}\n]\n"):
        path.write_text(whole, encoding="utf-8")
        with pytest.raises((verify_alone.WrongError, RecursionError)):
            verify_alone.read_json(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("configuration.release.implicates", 10**9),
        ("configuration.jobs.records_per_worker", 2**31),
        ("configuration.jobs.records_per_worker", True),
        ("parameters.classes.0.n_max", 2**61),
        ("parameters.classes.0.gain", "1e999999999"),
        ("parameters.retention.0", "1.0"),
    ],
)
def test_numbers_that_no_plan_has_are_refused_before_they_are_counted_up_to(
    path: str, value: object, public_copy: Path
) -> None:
    jobs = {"configuration.jobs": {"format": "microdata", "records_per_worker": 1}}
    edit_json(
        public_copy / "plan" / "plan.json", lambda plan: plan.update(with_values(plan, jobs, {path: value}))
    )
    with pytest.raises(verify_alone.WrongError):
        verify_alone.pool_classes(verify_alone.read_release(public_copy)[1])


def test_random_plans_have_the_same_bounds_and_none_is_below_the_truth(benchmark: ModuleType) -> None:
    """Of `python benchmarks/verifier.py`, which has hundreds, some dozens."""
    checker = benchmark.load_verifier()
    enumerated = 0
    for seed in range(36):
        case = benchmark.random_case(seed, checker)
        ratios = benchmark.proved(case, case.certificate, checker)
        assert 1 <= min(ratios) <= max(ratios) <= checker.FACTOR, seed
        if seed % 3 == 0 and case.numeric.mechanism == "dirichlet":
            assert benchmark.below_truth(case, checker) == [], seed
            enumerated += 1
        with pytest.raises(checker.WrongError, match=r"the plan gives|not what is due"):
            benchmark.proved(case, benchmark.smaller(case.certificate, random.Random(seed)), checker)
    assert enumerated >= 8


def test_its_arithmetic_encloses_the_truth(benchmark: ModuleType) -> None:
    """Where a wrong direction of rounding would not be seen in twelve digits."""
    checker = benchmark.load_verifier()
    third = Fraction(1, 3)
    assert Fraction(checker.down(third)) < third < Fraction(checker.up(third))
    for n in range(1, 40):
        x = Fraction(n, 7)
        exact = Fraction(math.prod(n + 7 * i for i in range(n)), math.factorial(n) * 7**n)
        below, above = (Fraction(checker.ways(n, 7, n, low)[n]) for low in (True, False))
        assert below <= exact <= above <= below * (1 + Fraction(1, 10**40))
        for of, inverse in ((checker.exp, checker.log), (checker.log, checker.exp)):
            assert Fraction(inverse(of(checker.up(x)))) > x


def test_how_likely_draws_are_is_just_above_the_truth(benchmark: ModuleType) -> None:
    """Stirling's series against products of fractions."""
    checker = benchmark.load_verifier()

    def ways(of: Fraction, n: int) -> Fraction:
        return math.prod((of + i for i in range(n)), start=Fraction(1)) / math.factorial(n)

    cases = [
        (1, 2, 3, 1, 1),
        (7, 5, 4, 30, 11),
        (1000, 1, 1, 400, 399),
        (3, 900, 10**9, 300, 0),
        (2, 0, 1, 5, 5),
    ]
    for w, rest, q, m, k in cases:
        cell, others = Fraction(w, q), Fraction(rest, q)
        exact = ways(cell, k) * ways(others, m - k) / ways(cell + others, m)
        with localcontext(checker.UP):
            bound = Fraction(checker.draws(w, rest, q, m, k))
        assert exact <= bound <= exact * (1 + Fraction(1, 10**20))


def test_an_inverse_moment_is_just_above_the_truth(benchmark: ModuleType) -> None:
    """The sums of Lemma 25 against sums over all results of coins, each an exact fraction."""
    checker = benchmark.load_verifier()
    for base, m, coins, a in (
        (Fraction(3, 2), 1, [(Fraction(1, 2), Fraction(1, 4), 3)], Fraction(1, 2)),
        (
            Fraction(7, 3),
            5,
            [(Fraction(5, 3), Fraction(1, 2), 2), (Fraction(1, 9), Fraction(1, 8), 3)],
            Fraction(9),
        ),
        (Fraction(41, 2), 60, [(Fraction(1, 50), Fraction(1, 3), 0)], Fraction(1, 50)),
    ):
        urns = [(Fraction(1), base)]
        for b, f, k in coins:
            for _ in range(k):
                urns = [(p * q, w + more) for p, w in urns for q, more in ((f, b), (1 - f, 0))]
        mean = [sum(p / math.prod(w + more + i for i in range(m)) for p, w in urns) for more in (0, a)]
        with localcontext(checker.UP):
            bound = Fraction(checker.inverse_moment(base, m, coins, a))
        assert 0 < bound - mean[0] / mean[1] < Fraction(1, 10**15) * bound


@pytest.mark.parametrize(
    ("loss", "stated", "right"),
    [
        ("0.5", "0.5", True),
        ("0.5", "0.500005", True),
        ("0.5", "0.4999999999", False),
        ("0.5", "0.50001", False),
        ("0.0000000007", "0.000000001", True),  # where the sums of e^V end
        ("0.0000000007", "0.0000000006", False),
        ("0.0000000007", "0.0000001", False),
    ],
)
def test_a_pruning_loss_is_not_below_its_proof_and_as_near_as_its_sums(
    loss: str, stated: str, right: bool
) -> None:
    assert verify_alone.is_pruning_loss(Decimal(loss))(stated) is right
