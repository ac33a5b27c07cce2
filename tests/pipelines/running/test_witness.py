"""A run commits before it draws; a second person makes its release again, byte for byte, and signs that."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from google.protobuf import json_format
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as Message
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner

import pipelines
import synth
from helpers import alone, edit_json, load, refused, seal_again
from pipelines import ConfigError, Ledger, LedgerError, Release, resume, run, verify
from pipelines.release import verification
from pipelines.release.audit import audit
from pipelines.release.certificate import SCHEMA_BEFORE, certificate_schema, parse_certificate
from pipelines.release.commitment import TimestampError, commitment_sha256, commitment_statement
from pipelines.release.signing import (
    WITNESS_FILE,
    SigningError,
    generate_keys,
    public_key_digits,
    read_private_key,
)
from pipelines.release.witness import WitnessError, read_statements
from pipelines.running import payment
from pipelines.running import run as releasing
from pipelines.running import witness as witnessing
from pipelines.running.commitment import input_root
from pipelines.running.folder import RunFolder
from pipelines.running.payment import check_debit
from pipelines.running.witness import seal, witness
from pipelines.storage.checksums import sha256_of

from .helpers import GEOMETRIC, Configs, everything, failing, left_over

pytestmark = pytest.mark.quick
timestamps = load("benchmarks/timestamps.py")


@pytest.fixture(scope="session")
def officer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The key pair of a witness."""
    return generate_keys(tmp_path_factory.mktemp("officer") / "keys")


@pytest.fixture(scope="module")
def stamps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with timestamps.authority(tmp_path_factory.mktemp("stamps") / "authority") as serving:
        yield serving


@pytest.fixture
def config_of(paid_config: Configs, officer: tuple[Path, Path], keys: tuple[Path, Path]) -> Configs:
    """Return the configuration of a signed release that requires this witness."""
    tables = {
        "ledger.epsilon": "100",
        "signature.key": keys[0],
        "witness": {"key": str(officer[1]), "required": True},
    }
    return lambda *changes: paid_config(tables, *changes)


@pytest.fixture
def release(config_of: Configs, clean_source: object) -> Release:
    return run(config_of())


def found(public: Path, **named: Any) -> dict[str, str]:
    return {check.name: check.detail for check in verify(public, **named)}


def moved(jobs: pd.DataFrame) -> pd.DataFrame:
    """Jobs of which one has another home."""
    work, _ = jobs.loc[0, ["w_geocode", "h_geocode"]]
    taken = {*jobs.loc[jobs["w_geocode"] == work, "h_geocode"]}
    changed = jobs.copy()
    changed.loc[0, "h_geocode"] = next(code for code in jobs["h_geocode"] if code not in taken)
    return changed


def test_a_witness_makes_every_byte_again_and_signs_that(
    release: Release, officer: tuple[Path, Path], keys: tuple[Path, Path], book: Path
) -> None:
    out, public = release.out, release.public
    before, entries = everything(public), len(Ledger(book).entries())
    assert refused(public).check == "witnessed"
    assert "no statement by the witness" in str(alone(public))
    with pytest.raises(WitnessError, match="none by the key that the certificate names"):
        seal(out)
    assert witness(out, officer[0]) == public / WITNESS_FILE
    after = everything(public)
    assert {name for name in after if after[name] != before.get(name)} == {WITNESS_FILE}
    assert len(Ledger(book).entries()) == entries
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    details = found(public, key=keys[1], witness=officer[1])
    assert public_key_digits(officer[1]) in details["witnessed"]
    assert "was not checked" not in details["witnessed"]
    assert "was not checked" in found(public)["witnessed"]
    assert details["said"].startswith("that the run key was random")
    assert alone(public) is None
    seal(out)
    assert not RunFolder(out).has_key
    for again in (lambda: seal(out), lambda: witness(out, officer[0])):
        with pytest.raises(ConfigError, match="the run key is not there"):
            again()
    published = pipelines.publish(out, out.parent / "site", key=keys[1])
    assert (Path(published.location) / WITNESS_FILE).read_bytes() == after[WITNESS_FILE]


def test_what_a_run_committed_to_is_in_the_ledger_before_it_draws(
    config_of: Configs, book: Path, monkeypatch: pytest.MonkeyPatch, clean_source: object
) -> None:
    config = config_of()
    failing(releasing, "make_public", KeyboardInterrupt(), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    (debit,) = (entry for entry in Ledger(book).entries() if entry.kind == "debit")
    certificate = RunFolder.of(config.release.out).load().certificate
    assert debit.release is not None
    assert f", commitment {commitment_sha256(certificate)}, run " in debit.release
    monkeypatch.undo()
    release = resume(config.release.out)
    assert release.certificate.commitment == certificate.commitment
    made = release.certificate.commitment
    assert made is not None
    assert (made.previous, made.draw, made.debit) == (None, 1, debit.hash)
    other = run(config_of()).certificate.commitment  # the same plan, drawn again
    assert other is not None
    assert (other.previous, other.draw) == (debit.hash, 2)
    assert len({made.key, other.key, made.input, other.input}) == 4


def test_an_older_copy_that_commits_otherwise_than_its_debit_is_not_drawn(
    config_of: Configs, monkeypatch: pytest.MonkeyPatch, clean_source: object
) -> None:
    config = config_of()
    failing(releasing, "make_public", KeyboardInterrupt(), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    staging = RunFolder.of(config.release.out)
    state = staging.load()
    made = state.certificate.commitment
    assert made is not None
    other = made.model_copy(update={"previous": "0" * 64, "draw": 2, "debit": None})
    certificate = state.certificate.model_copy(update={"commitment": other})
    staging.save(replace(state, certificate=certificate, debit=None))
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="no debit that names this commitment"):
        resume(config.release.out)


def test_two_runs_at_once_commit_to_different_debits(
    config_of: Configs, book: Path, monkeypatch: pytest.MonkeyPatch, clean_source: object
) -> None:
    real, others = payment.debit, [config_of()]

    def slow(*arguments: Any, rehearse: bool = False) -> Any:
        if others and not rehearse:  # another run is faster
            run(others.pop())
        return real(*arguments, rehearse=rehearse)

    monkeypatch.setattr(payment, "debit", slow)
    second = run(config_of()).certificate.commitment
    first, last = (entry.hash for entry in Ledger(book).entries() if entry.kind == "debit")
    assert second is not None
    assert (second.previous, second.draw, second.debit) == (first, 2, last)


def test_the_input_is_committed_to_whatever_the_order_of_its_rows(
    config_of: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    jobs, roots = pd.read_csv(small_region["od"], dtype="str"), []
    key = synth.RunKey.from_seed(1)
    for number, table in enumerate((jobs, jobs[::-1], moved(jobs))):
        table.to_csv(path := tmp_path / f"jobs{number}.csv", index=False)
        path.chmod(0o600)
        config = config_of({"jobs.file": path})
        with pytest.MonkeyPatch.context() as patch:
            failing(releasing, "make_public", KeyboardInterrupt(), patch)
            with pytest.raises(KeyboardInterrupt):
                run(config)
        roots.append(input_root(RunFolder.of(config.release.out), key))
    assert roots[0] == roots[1] != roots[2]


def test_nothing_is_signed_of_what_is_not_the_run_that_was_committed_to(
    release: Release,
    officer: tuple[Path, Path],
    keys: tuple[Path, Path],
    small_region: dict[str, Path],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "other"
    folder.mkdir(mode=0o700)
    moved(pd.read_csv(small_region["od"], dtype="str")).to_csv(folder / small_region["od"].name, index=False)
    (folder / small_region["od"].name).chmod(0o600)

    def swapped(out: Path) -> dict[str, Any]:
        return {"jobs": folder}

    def another_key(out: Path) -> dict[str, Any]:
        (out / "confidential" / "run.key").write_bytes(bytes(32))
        return {}

    def other_data(out: Path) -> dict[str, Any]:
        path = next((out / "public").glob("*.csv.gz"))
        path.write_bytes(path.read_bytes() + b"\0")
        return {}

    def other_checksums(out: Path) -> dict[str, Any]:
        path = out / "public" / "SHA256SUMS"
        path.write_bytes(b"0" * 64 + path.read_bytes()[64:])
        return {}

    for number, (change, why) in enumerate(
        (
            (swapped, "input is not what"),
            (another_key, "is not what the run"),
            (other_data, "1 of"),
            (other_checksums, "1 of .*SHA256SUMS"),
        )
    ):
        out = Path(shutil.copytree(release.out, tmp_path / str(number) / "out"))
        (out / "confidential").chmod(0o700)
        named = change(out)
        with pytest.raises(WitnessError, match=why):
            witness(out, officer[0], **named)
        assert not (out / "public" / WITNESS_FILE).exists()
        assert [path.name for path in out.parent.iterdir()] == ["out"]
    with pytest.raises(WitnessError, match="has signed the release itself"):
        witness(release.out, keys[0])
    with pytest.raises(WitnessError, match="requires another witness"):
        witness(release.out, generate_keys(tmp_path / "third")[0])
    with pytest.raises(SigningError, match="this is a public key"):
        witness(release.out, officer[1])


def test_a_witness_who_is_stopped_goes_on(
    release: Release, officer: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(witnessing, "make_public", KeyboardInterrupt(), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        witness(release.out, officer[0])
    left = release.out.with_name(f".{release.out.name}.witness.unfinished")
    assert [path.name for path in release.out.parent.glob(".*")] == [left.name]
    with pytest.raises(ConfigError, match="odsynth witness"):
        resume(release.out.with_name(f"{release.out.name}.witness"))
    monkeypatch.undo()
    called = failing(witnessing, "keep_origins", RuntimeError(), monkeypatch)
    witness(release.out, officer[0])
    assert not called
    assert not left.exists()


def test_what_somebody_put_beside_the_run_is_not_gone_on_with(
    release: Release, officer: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(witnessing, "make_public", KeyboardInterrupt(), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        witness(release.out, officer[0])
    left = RunFolder(release.out.with_name(f".{release.out.name}.witness.unfinished"))
    (left.confidential / "opened.sig").write_bytes(bytes(64))  # by somebody without the witness's key
    next(left.homes.iterdir()).write_bytes(b"other homes")
    before = officer[0].read_bytes()
    (left.confidential / "run.key").symlink_to(officer[0])
    monkeypatch.undo()
    witness(release.out, officer[0])
    assert officer[0].read_bytes() == before
    assert "the run was repeated" in found(release.public)["witnessed"]
    assert not left.folder.exists()


def test_a_witness_who_was_stopped_at_the_end_signs_once(
    release: Release, officer: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        failing(RunFolder, "wipe", KeyboardInterrupt(), patch)
        with pytest.raises(KeyboardInterrupt):
            witness(release.out, officer[0])
    witness(release.out, officer[0])
    assert len((release.public / WITNESS_FILE).read_text(encoding="utf-8").splitlines()) == 1
    assert "the run was repeated" in found(release.public)["witnessed"]
    assert [path.name for path in release.out.parent.iterdir()] == [release.out.name]


def test_an_empty_file_of_statements_says_nothing(config_of: Configs, clean_source: object) -> None:
    public = run(config_of({"witness": None})).public
    drawn = "that the data were drawn by this plan, once"
    (public / WITNESS_FILE).write_bytes(b"")
    assert found(public)["said"].startswith(drawn)
    assert dict(load("pipelines/release/verify.py").verify(public))["said"].startswith(drawn)


def test_statements_of_other_runs_by_nobody_and_about_other_files_are_refused(
    release: Release, config_of: Configs, officer: tuple[Path, Path], tmp_path: Path
) -> None:
    public, other = release.public, run(config_of())
    for out in (release.out, other.out):
        witness(out, officer[0])
    line = json.loads((public / WITNESS_FILE).read_text(encoding="utf-8"))
    unsigned, stolen = dict(line, signatures=[]), json.loads(json.dumps(line))
    stolen["signatures"][0]["sig"] = stolen["signatures"][0]["sig"][:-8] + "AAAAAA=="
    for text, why in (
        ((other.public / WITNESS_FILE).read_text(encoding="utf-8"), "another run"),
        (json.dumps(unsigned, sort_keys=True) + "\n", "no statement of a witness"),
        (json.dumps(stolen, sort_keys=True) + "\n", "has not signed it"),
        ("{}\n", "no statement of a witness"),
        ("[" * 100_000 + "\n", "no statement of a witness"),
        ("", "0 statement"),
    ):
        forged = Path(shutil.copytree(public, tmp_path / str(len([*tmp_path.iterdir()]))))
        (forged / WITNESS_FILE).write_text(text, encoding="utf-8")
        error = refused(forged)
        assert (error.check, why in error.reason) == ("witnessed", True), error
        assert alone(forged) is not None


def test_statements_have_no_room_for_prose(
    release: Release, officer: tuple[Path, Path], tmp_path: Path
) -> None:
    witness(release.out, officer[0])
    key = read_private_key(officer[0])
    line = json.loads((release.public / WITNESS_FILE).read_text(encoding="utf-8"))
    document = json.loads(base64.b64decode(line["payload"]))

    def signed(change: Callable[[dict[str, Any]], object]) -> str:
        changed = json.loads(json.dumps(document))
        change(changed)
        text = json.dumps(changed, sort_keys=True, separators=(",", ":"))
        envelope = Envelope(text.encode(), line["payloadType"], {})
        envelope.sign(CryptoSigner(key))
        return json.dumps(envelope.to_dict(), sort_keys=True) + "\n"

    assert json.loads(signed(lambda _: None)) == line
    whole, (signature,) = json.dumps(line, sort_keys=True), line["signatures"]
    for number, text in enumerate(
        (
            signed(lambda said: said["predicate"].update(note="Ann lives at 7")),
            signed(lambda said: said["predicate"].update(time="at 7")),
            signed(lambda said: said["predicate"].update(ledger="at 7")),
            signed(lambda said: said.update(note="at 7")),
            signed(lambda said: said["subject"].append({"name": "at 7", "digest": {"sha256": "0" * 64}})),
            json.dumps(line | {"note": "at 7"}, sort_keys=True) + "\n",
            json.dumps(line | {"signatures": [signature | {"keyid": "at 7"}]}, sort_keys=True) + "\n",
            json.dumps(line | {"signatures": [signature, signature]}, sort_keys=True) + "\n",
            f"{whole} \n",
            whole,
            f"{whole}\n{whole}\n",
            f"{whole}\n\n",
        )
    ):
        forged = Path(shutil.copytree(release.public, tmp_path / str(number)))
        (forged / WITNESS_FILE).write_text(text, encoding="utf-8")
        assert refused(forged).check == "witnessed", number
        assert alone(forged) is not None, number


def test_a_witness_finds_the_debit_in_the_ledger_or_says_that_nobody_looked(
    release: Release, config_of: Configs, officer: tuple[Path, Path], book: Path, tmp_path: Path
) -> None:
    other = run(config_of({"ledger.file": tmp_path / "other.sqlite"}))
    for ledger in (tmp_path / "other.sqlite", book):
        debits = [entry.hash for entry in Ledger(ledger).entries() if entry.kind == "debit"]
        assert len(debits) == 1
    with pytest.raises(LedgerError, match="no debit that names this commitment"):
        witness(release.out, officer[0], ledger=tmp_path / "other.sqlite")
    document = json.loads((other.out / "confidential" / "state.json").read_bytes())
    certificate = parse_certificate(document["certificate"])
    with pytest.raises(LedgerError, match="no debit that names this commitment"):
        check_debit(Ledger(book).entries(), certificate)
    made = certificate.commitment
    assert made is not None
    exchanged = certificate.model_copy(update={"commitment": made.model_copy(update={"key": "0" * 64})})
    check_debit(Ledger(tmp_path / "other.sqlite").entries(), certificate)
    with pytest.raises(LedgerError, match="no debit that names this commitment"):
        check_debit(Ledger(tmp_path / "other.sqlite").entries(), exchanged)
    copy = Path(shutil.copy(book, tmp_path / "copy.sqlite"))
    witness(release.out, officer[0], ledger=copy)
    assert "with the ledger" in found(release.public)["witnessed"]
    assert [*tmp_path.glob("copy*")] == [copy]
    (tmp_path / "other.sqlite").rename(tmp_path / "away.sqlite")
    witness(other.out, officer[0])
    assert "without the ledger" in found(other.public)["witnessed"]


def test_a_correction_of_words_keeps_the_statement(
    config_of: Configs, officer: tuple[Path, Path], tmp_path: Path, clean_source: object
) -> None:
    release = run(config_of())
    witness(release.out, officer[0])
    config = config_of({"release.licence": "CC-BY-4.0"}).with_out(tmp_path / "corrected")
    corrected = pipelines.correct(release.public, config, "it had no licence").public
    assert (corrected / WITNESS_FILE).read_bytes() == (release.public / WITNESS_FILE).read_bytes()
    witnessed = found(corrected, witness=officer[1])["witnessed"]
    assert "the run was repeated" in witnessed
    assert "but for words and names" in witnessed
    assert "but for" not in found(release.public)["witnessed"]
    assert alone(corrected) is None


def test_a_release_of_before_commitments_passes_and_is_only_said(
    small_release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = Path(shutil.copytree(small_release.public, tmp_path / "public"))
    edit_json(public / "certificate.json", lambda certificate: certificate.pop("commitment"))
    schema = certificate_schema()
    del schema["$defs"]["Commitment"], schema["properties"]["commitment"]
    (public / "certificate.schema.json").write_text(json.dumps(schema, indent=1) + "\n", encoding="utf-8")
    assert sha256_of(public / "certificate.schema.json") == SCHEMA_BEFORE
    seal_again(public)
    assert alone(public) is None
    assert refused(public).check == "verifier"
    monkeypatch.setattr(verification, "VERIFIER_BEFORE", sha256_of(public / "verify.py"))
    details = found(public)
    assert details["commitment"].startswith("none")
    assert details["said"].startswith("that the data were drawn by this plan, once")


def test_statements_are_in_toto(release: Release, officer: tuple[Path, Path]) -> None:
    witness(release.out, officer[0])
    statements = [json.loads(commitment_statement(release.certificate))]
    line = json.loads((release.public / WITNESS_FILE).read_text(encoding="utf-8"))
    assert line["payloadType"] == "application/vnd.in-toto+json"
    statements.append(json.loads(base64.b64decode(line["payload"])))
    for statement in statements:
        Statement.copy_from_pb(json_format.ParseDict(statement, Message())).validate()
    (read,) = read_statements((release.public / WITNESS_FILE).read_text(encoding="utf-8"))
    assert read.predicate.commitment == commitment_sha256(release.certificate)


def test_a_time_stamp_is_had_before_anything_is_paid_and_checked_offline(
    config_of: Configs, stamps: Any, book: Path, tmp_path: Path, clean_source: object
) -> None:
    named = {"witness.timestamp": stamps.address, "witness.authority": stamps.certificates}
    unwitnessed = {"witness.key": None, "witness.required": None}
    release = run(config_of(unwitnessed, named))
    public = release.public
    assert not RunFolder(release.out).has_key
    details = found(public, authority=stamps.certificates)
    for time in ("stamped at 2", f"of {release.certificate.created} by the certificate"):
        assert time in details["commitment"]
    assert "was not checked" not in details["commitment"]
    assert "was not checked" in found(public)["commitment"]
    assert alone(public) is None
    with timestamps.authority(tmp_path / "another") as other:
        with pytest.raises(pipelines.VerificationError, match="not signed by the authority"):
            verify(public, authority=other.certificates)
        entries = len(Ledger(book).entries())
        config = config_of(unwitnessed, named, {"witness.authority": other.certificates})
        with pytest.raises(TimestampError, match="nothing was paid"):
            run(config)
    for address, why in ((f"{stamps.address}", None), (other.address, "does not answer")):
        if why is not None:
            config = config_of(unwitnessed, named, {"witness.timestamp": address})
            with pytest.raises(TimestampError, match=why):
                run(config)
        assert len(Ledger(book).entries()) == entries
        assert left_over(config) == []
    unstamped = run(config_of(unwitnessed, {"witness": None})).public
    with pytest.raises(pipelines.VerificationError, match="no authority has stamped it"):
        verify(unstamped, authority=stamps.certificates)


def test_the_witness_may_not_be_the_signer_and_keys_are_tried_before_anything(
    config_of: Configs, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="signs the release itself"):
        run(config_of({"witness.key": keys[1]}))
    with pytest.raises(SigningError, match="cannot be read"):
        run(config_of({"witness.key": tmp_path / "none"}))
    with pytest.raises(ConfigError, match="missing beside required"):
        config_of({"witness.key": None})
    with pytest.raises(ConfigError, match="no witness can repeat a run of several tiers"):
        config_of(GEOMETRIC | {"tiers": {"public": "1", "secure": "8.6"}})
    with pytest.raises(ConfigError, match="missing beside timestamp"):
        config_of({"witness.timestamp": "https://example.org"})


def test_published_releases_show_a_fork_an_older_copy_and_a_missing_debit(
    config_of: Configs, book: Path, tmp_path: Path, clean_source: object
) -> None:
    copy = tmp_path / "copy.sqlite"

    def released() -> tuple[Path, str]:
        made = run(config_of({"witness": None}))
        assert made.certificate.commitment is not None
        return made.public, str(made.certificate.commitment.debit)

    (first, debit), _ = released(), shutil.copy(book, copy)
    (second, other), (third, _) = released(), released()
    verify(second, ledger_head=debit)
    verify(second, ledger_head=other)
    with pytest.raises(pipelines.VerificationError, match="does not follow on the debit"):
        verify(third, ledger_head=debit)
    assert audit([third, second, first.parent]).findings == []
    assert [line.split("  ")[0] for line in audit([third, second, first]).debits][:2] == [debit, other]
    missing = audit([first, third]).findings
    assert [other in missing[0], "3 time(s) by the ledger, 2 release(s)" in missing[1]] == [True, True]
    with pytest.raises(pipelines.VerificationError, match="names no debit"):
        verify(run(config_of({"witness": None, "ledger": None})).public, ledger_head=debit)
    other_debit = Path(shutil.copytree(second, tmp_path / "other-debit"))  # of the same commitment
    edit_json(
        other_debit / "certificate.json", lambda certificate: certificate["commitment"].update(debit="0" * 64)
    )
    assert any("one run key" in finding for finding in audit([first, second, other_debit, third]).findings)
    shutil.copy(copy, book)
    fourth, _ = released()  # the ledger knows only the first
    (fork, *_), again = audit([first, second, third, fourth]).findings, audit([first, first])
    assert f"2 debits follow on the debit {debit}" in fork
    assert len(again.debits) == 1
