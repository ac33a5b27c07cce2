"""Frauds of officers who have the signing key, and of others: who sees them, with a witness and without.

Usage: python benchmarks/frauds.py [--page benchmarks/frauds.md]

Each fraud is committed against releases of a generated region of 600 jobs, once in an office without a
witness, once in one that requires one; both ask a local time-stamp authority. Officers change this program
while it runs, and sign what they like. Then everybody looks: the witness, if there is one, makes the release
again; readers verify what was published, with the keys of signer, witness and authority, and audit the
releases together. The first who refuses is printed. The command fails if a fraud is not seen by whom it was
seen before.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import click
import numpy as np
import tomlkit
from report import fill, table, this_machine
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner
from timestamps import Authority, authority

import geo_data
import pipelines
import synth
from pipelines.config.loading import check_config
from pipelines.config.toml import read_toml
from pipelines.release import certificate as certificates
from pipelines.release.audit import audit
from pipelines.release.certificate import certificate_text, parse_certificate
from pipelines.release.commitment import commitment_statement, request_timestamp
from pipelines.release.layout import public_files, seal, with_sizes
from pipelines.release.names import NAME_FILE
from pipelines.release.provenance import SourceState
from pipelines.release.readme import describe_plan
from pipelines.release.records import record_texts
from pipelines.release.signing import WITNESS_FILE, generate_keys, read_private_key, sign
from pipelines.release.witness import WitnessError
from pipelines.running import batches
from pipelines.running import run as running
from pipelines.running.commitment import commit
from pipelines.storage.checksums import sha256_of

COMMAND = "python benchmarks/frauds.py"
EXAMPLE = Path(__file__).parent.parent / "examples" / "demo.toml"
NOBODY = "**nobody**"
NO_STATEMENT = "(no statements)"


class Office(NamedTuple):
    """An office with its ledger; `witness` is the key pair of who must witness, if anybody."""

    folder: Path
    files: dict[str, Path]
    signer: tuple[Path, Path]
    witness: tuple[Path, Path] | None
    stamps: Authority
    numbers: Iterator[int]

    @property
    def ledger(self) -> Path:
        """The file of its ledger."""
        return self.folder / "ledger.sqlite"

    def config(self, **privacy: str) -> pipelines.ReleaseConfig:
        """Return the configuration of its next release."""
        tables: dict[str, Any] = tomlkit.parse(tomlkit.dumps(read_toml(EXAMPLE))).unwrap()
        of_name = {path.name: str(path) for path in self.files.values()}
        geography = tables["geography"]
        del geography["external_zones"], tables["jobs"]["aux"]
        tables["jobs"]["population"] = "residents"
        for one in (
            tables["jobs"],
            geography,
            tables["weights"],
            *tables["auxiliary"],
            *geography["polygons"],
        ):
            one["file"] = of_name[Path(one["file"]).name]
        tables["plan"] |= {"split_threshold": "1", "pool_below": 8, "pool_by": []}
        tables["privacy"] |= privacy
        tables["signature"] = {"key": str(self.signer[0])}
        tables["ledger"] = {"file": str(self.ledger), "data_set": "jobs", "epsilon": "1000", "delta": "0.1"}
        tables["witness"] = {"timestamp": self.stamps.address, "authority": str(self.stamps.certificates)}
        if self.witness is not None:
            tables["witness"] |= {"key": str(self.witness[1]), "required": True}
        tables["release"]["out"] = str(self.folder / f"release-{next(self.numbers)}")
        return check_config(tables, self.folder, "fraud.toml")

    def run(self, key: synth.RunKey | None = None, **privacy: str) -> Path:
        """Make a release, and return its output folder."""
        return pipelines.run(self.config(**privacy), key=key).out

    def sign(self, out: Path) -> None:
        """Seal and sign a public folder that was changed, with records that fit."""
        public = out / "public"
        certificate = parse_certificate((public / "certificate.json").read_bytes())
        hashes = {name: sha256_of(public / name) for name in public_files(public)}
        about = describe_plan(pipelines.load_plan(public / "plan"), certificate, named=NAME_FILE in hashes)
        for name, text in record_texts(about, with_sizes(public, hashes)).items():
            (public / name).write_text(text, encoding="utf-8")
        seal(public, certificate)
        sign(read_private_key(self.signer[0]), public)


Fraud = Callable[[Office], list[Path]]
"""What commits a fraud, and returns the output folders of all releases that are published, the fraud last."""


def sampled(change: Callable[[Any, Any], Any]) -> Fraud:
    """Draw with a sampler whose homes are changed, by the homes that are confidential."""
    real = batches.sample_batch

    def fraud(office: Office) -> list[Path]:
        def changed(plan: Any, pools: slice, homes: Any, *more: Any) -> Iterator[Any]:
            yield from (change(drawn, homes) for drawn in real(plan, pools, homes, *more))

        with patch.object(batches, "sample_batch", changed):
            return [office.run()]

    return fraud


def best_of_ten(office: Office) -> list[Path]:
    """Draw ten times with this program, and publish the last."""
    return [office.run() for _ in range(10)][-1:]


def best_of_ten_unseen(office: Office) -> list[Path]:
    """Draw ten times with this program, put the ledger back before each draw, and publish the last."""
    first, copy = office.run(), office.folder / "copy.sqlite"
    shutil.copy(office.ledger, copy)
    for _ in range(10):
        shutil.copy(copy, office.ledger)
        last = office.run()
    return [first, last]


def best_of_ten_keys(office: Office) -> list[Path]:
    """Try ten keys with a program that neither commits nor pays, and commit to the best."""
    keys = [synth.RunKey.generate() for _ in range(10)]
    return [office.run(keys[-1])]


def ten_for_one_debit(office: Office) -> list[Path]:
    """Pay once, then try ten keys, and commit anew, with a new time-stamp, to the best."""
    real = running.make_public

    def again(staging: Any, plan: Any, state: Any, key: synth.RunKey, *more: Any) -> Any:
        keys = [synth.RunKey.generate() for _ in range(10)]
        made, certificate = state.certificate.commitment, state.certificate
        new = commit(certificate, staging, keys[-1], state.config.witness)
        new = new.model_copy(update={name: getattr(made, name) for name in ("previous", "draw", "debit")})
        certificate = certificate.model_copy(update={"commitment": new})
        stamp = request_timestamp(office.stamps.address, commitment_statement(certificate), office.stamps[1])
        new = new.model_copy(update={"timestamp": stamp})
        state = replace(state, certificate=certificate.model_copy(update={"commitment": new}))
        staging.save(state, keys[-1])
        return real(staging, plan, state, keys[-1], *more)

    with patch.object(running, "make_public", again):
        return [office.run()]


def another_plan(office: Office) -> list[Path]:
    """Publish what a plan of twice the epsilon drew, with the plan and the certificate of a release."""
    out, other = office.run(), office.run(epsilon="17.2")
    for path in (other / "public").glob("*_od_*"):
        shutil.copy(path, out / "public" / path.name)
    for name in ("intervals.parquet", "areas.csv", "flows.csv"):
        shutil.copy(other / "public" / name, out / "public" / name)
    office.sign(out)
    return [out]


def key_reused(office: Office) -> list[Path]:
    """Draw two releases with one key."""
    secret = synth.RunKey.generate().secret()
    return [office.run(synth.RunKey(secret, secure=True)) for _ in range(2)]


def input_swapped(office: Office) -> list[Path]:
    """Exchange a home after the commitment, before the draw."""
    real = running.make_public

    def swapped(staging: Any, *more: Any) -> Any:
        homes = staging.read_homes(0)
        homes[2] = homes[2, ::-1].copy()
        staging.homes_of(0).unlink()
        staging.add_homes(0, homes)
        return real(staging, *more)

    with patch.object(running, "make_public", swapped):
        return [office.run()]


def older_ledger(office: Office) -> list[Path]:
    """Put a copy back that lacks the last release, and release again."""
    first, copy = office.run(), office.folder / "copy.sqlite"
    shutil.copy(office.ledger, copy)
    second = office.run()
    shutil.copy(copy, office.ledger)
    return [first, second, office.run()]


def forked_ledger(office: Office) -> list[Path]:
    """Go on with two copies of a ledger, and publish from both."""
    first, copy, kept = office.run(), office.folder / "copy.sqlite", office.folder / "kept.sqlite"
    shutil.copy(office.ledger, copy)
    branch = [office.run(), office.run()]
    shutil.copy(office.ledger, kept)
    shutil.copy(copy, office.ledger)
    return [first, *branch, office.run(), office.run()]


def other_statement(office: Office) -> list[Path]:
    """Give a release that nobody repeated the statement about another one."""
    out, other = office.run(), office.run()
    witnessed(office, other)
    shutil.copy(other / "public" / WITNESS_FILE, out / "public" / WITNESS_FILE)
    return [out, other][::-1]


def statement_without_key(office: Office) -> list[Path]:
    """Write a statement in the name of the witness, and sign it with another key."""
    out, other = office.run(), office.folder / "forger"
    with patch.object(certificates, "source_state", honest):
        witnessed(office, out)
    path = out / "public" / WITNESS_FILE
    line = json.loads(path.read_text(encoding="utf-8"))
    envelope = Envelope.from_dict(line)
    envelope.signatures.clear()
    envelope.sign(CryptoSigner(read_private_key(generate_keys(other)[0])))
    path.write_text(json.dumps(envelope.to_dict(), sort_keys=True) + "\n", encoding="utf-8")
    return [out]


def replayed_timestamp(office: Office) -> list[Path]:
    """Put the time-stamp of an earlier commitment into a certificate."""
    first, out = office.run(), office.run()
    earlier = parse_certificate((first / "public" / "certificate.json").read_bytes()).commitment
    path = out / "public" / "certificate.json"
    certificate = parse_certificate(path.read_bytes())
    assert earlier is not None
    assert certificate.commitment is not None
    made = certificate.commitment.model_copy(update={"timestamp": earlier.timestamp})
    path.write_text(certificate_text(certificate.model_copy(update={"commitment": made})), encoding="utf-8")
    office.sign(out)
    return [first, out]


def whole_home(drawn: Any, homes: Any) -> Any:
    return homes


def half_home(drawn: Any, homes: Any) -> Any:
    return np.where(np.arange(drawn.size) % 2 == 0, homes, drawn)


def edited(drawn: Any, homes: Any) -> Any:
    changed = drawn.copy()
    changed[:2] = changed[1::-1] if changed.size > 1 else changed[:2]
    changed[-1] = homes[-1]
    return changed


AUDIT, STAMP = "readers: audit", "readers: commitment"
OUT_OF_KEY, LEDGER = "the witness: files", "the witness: ledger"
FRAUDS: tuple[tuple[str, Fraud, str, str], ...] = (
    ("the confidential file as release", sampled(whole_home), NOBODY, OUT_OF_KEY),
    ("best of ten draws", best_of_ten, AUDIT, AUDIT),
    ("another plan drew the data", another_plan, NOBODY, OUT_OF_KEY),
    ("a changed sampler", sampled(half_home), NOBODY, OUT_OF_KEY),
    ("one key for two releases", key_reused, AUDIT, AUDIT),
    ("counts edited after the draw", sampled(edited), NOBODY, OUT_OF_KEY),
    ("input exchanged after the commitment", input_swapped, NOBODY, OUT_OF_KEY),
    ("an older ledger put back", older_ledger, AUDIT, LEDGER),
    ("a forked ledger", forked_ledger, AUDIT, LEDGER),
    ("the statement about another run", other_statement, NO_STATEMENT, "readers: witnessed"),
    ("the time-stamp of another commitment", replayed_timestamp, STAMP, OUT_OF_KEY),
    ("a statement that the witness did not sign", statement_without_key, NO_STATEMENT, "readers: witnessed"),
    ("best of ten draws, for one debit", ten_for_one_debit, NOBODY, LEDGER),
    ("best of ten draws, the ledger put back before each", best_of_ten_unseen, NOBODY, NOBODY),
    ("best of ten keys, tried before the commitment", best_of_ten_keys, NOBODY, NOBODY),
)


def honest() -> SourceState:
    """Say that the program is unmodified, whatever the state of this checkout."""
    return SourceState("0.0", "0" * 40, modified=False)


def witnessed(office: Office, out: Path) -> None:
    """Let the witness repeat a run, and destroy its key."""
    assert office.witness is not None
    pipelines.witness(out, office.witness[0])


def seen(office: Office, outs: list[Path]) -> str:
    """Let everybody look at the releases; say who refuses first, and why, in two words."""
    for out in outs if office.witness else ():
        if not (out / "public" / WITNESS_FILE).exists():
            try:
                witnessed(office, out)
            except pipelines.LedgerError:
                return LEDGER
            except WitnessError as error:
                return (
                    "the witness: files" if " files are not what" in str(error) else f"the witness: {error}"
                )
    named: dict[str, Any] = {"authority": office.stamps.certificates}
    if office.witness is not None:
        named["witness"] = office.witness[1]
    for out in outs:
        try:
            pipelines.verify(out / "public", office.signer[1], **named)
        except pipelines.VerificationError as error:
            return f"readers: {error.check}"
    return AUDIT if audit(outs).findings else NOBODY


@contextmanager
def offices(
    files: dict[str, Path], stamps: Authority, keys: dict[str, tuple[Path, Path]]
) -> Iterator[list[Office]]:
    """Give an office without a witness and one with, each with a new ledger."""
    with tempfile.TemporaryDirectory() as name:
        made = []
        for kind in ("alone", "witnessed"):
            folder = Path(name) / kind
            folder.mkdir(mode=0o700)
            witness = keys["witness"] if kind == "witnessed" else None
            made.append(Office(folder, files, keys["signer"], witness, stamps, itertools.count()))
        yield made


@click.command()
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), help="Page to put the table into.")
def main(page: Path | None) -> None:
    """Commit every fraud against both offices."""
    rows, wrong = [], []
    with tempfile.TemporaryDirectory() as name, patch.object(certificates, "source_state", honest):
        folder = Path(name)
        folder.chmod(0o700)
        files = geo_data.write_demo_region(folder / "in", counties=2, tracts=6, blocks=120, jobs=600)
        files["od"].chmod(0o600)
        keys = {who: generate_keys(folder / who) for who in ("signer", "witness")}
        with authority(folder / "authority") as stamps:
            honest_frauds = [("none: two honest releases", lambda o: [o.run(), o.run()], NOBODY, NOBODY)]
            for what, fraud, *expected in (*honest_frauds, *FRAUDS):
                with offices(files, stamps, keys) as both:
                    found = [
                        due if due == NO_STATEMENT else seen(office, fraud(office))
                        for office, due in zip(both, expected, strict=True)
                    ]
                wrong += [what] if found != expected else []
                rows.append((what, *found))
                click.echo(" | ".join(rows[-1]), err=True)
    text = f"{this_machine()}\n\n" + table(("fraud", "seen without a witness by", "with a witness by"), rows)
    click.echo(text)
    if page is not None:
        fill(page, COMMAND, text)
    if wrong:
        raise click.ClickException(f"not seen as it was known to be: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
