"""The debits of published releases as a chain: what their certificates alone tell of a ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from geo_data.arguments import PathLike, paths_of
from pipelines.release.certificate import Certificate, Commitment, certificate_text, parse_certificate
from pipelines.release.layout import not_public
from synth.errors import ShownError


class AuditError(ShownError, ValueError):
    """A release that is to be audited cannot be read."""


class Audit(NamedTuple):
    """What certificates tell of a ledger: a line for each debit, and what is wrong."""

    debits: list[str]
    findings: list[str]


def audit(folders: PathLike | Iterable[PathLike]) -> Audit:
    """Compare what published releases say of the ledger that paid for them.

    Each debit must follow on another that was published, no two on the same, each plan be drawn as often as
    there are releases of it, and each release have a key of its own. That certificates are genuine is what
    `verify` checks.

    Parameters
    ----------
    folders : str or path, or several
        Public folders, or folders with ``public``.

    Returns
    -------
    Audit
    """
    releases: dict[str, tuple[str, Certificate, Commitment]] = {}
    findings = []
    for folder in paths_of(folders, "folders"):
        certificate = _certificate(folder)
        if (made := certificate.commitment) is None or made.debit is None:
            findings.append(f"{folder}: its certificate names no debit")
        else:  # a correction has the same certificate
            releases.setdefault(certificate_text(certificate), (str(folder), certificate, made))
    keys = Counter(made.key for _, _, made in releases.values())
    findings += [f"{times} releases were drawn with one run key" for times in keys.values() if times > 1]
    followed: dict[str | None, list[str]] = defaultdict(list)
    by_debit: dict[str | None, list[str]] = defaultdict(list)
    for name, _, made in releases.values():
        followed[made.previous].append(name)
        by_debit[made.debit].append(name)
    for debit, names in by_debit.items():
        if len(names) > 1:
            findings.append(f"{', '.join(names)}: {len(names)} releases name one debit, {debit}")
    for previous, names in followed.items():
        where = "begin a ledger" if previous is None else f"follow on the debit {previous}"
        if len(names) > 1:
            rule = "the ledger was forked, an older copy put back, or there are several"
            findings.append(f"{', '.join(names)}: {len(names)} debits {where}: {rule}")
        if previous is not None and previous not in by_debit:
            findings.append(f"{names[0]}: it follows on the debit {previous}, which no release here names")
    drawn = Counter(certificate.plan_sha256 for _, certificate, _ in releases.values())
    for plan, published in drawn.items():
        draws = max(made.draw or 0 for _, c, made in releases.values() if c.plan_sha256 == plan)
        if draws != published:
            findings.append(f"plan {plan}: drawn {draws} time(s) by the ledger, {published} release(s) here")
    debits = [*_in_order(releases.values(), followed)]
    if circle := len(releases) - len(debits):
        findings.append(f"{circle} release(s) follow on one another in a circle")
    return Audit(debits, findings)


def _in_order(
    releases: Iterable[tuple[str, Certificate, Commitment]], followed: dict[str | None, list[str]]
) -> Iterable[str]:
    """Yield a line for each release, each after the one that it follows on."""
    left = {name: (certificate, made) for name, certificate, made in releases}
    known = {made.debit for _, made in left.values()}
    starts = [name for name, (_, made) in left.items() if made.previous not in known]
    while starts:
        name = starts.pop(0)
        certificate, made = left.pop(name)
        title = f"{certificate.release.name} of {certificate.created}"
        yield f"{made.debit}  {title}, draw {made.draw} of its plan: {name}"
        starts = [after for after in followed[made.debit] if after in left] + starts


def _certificate(folder: Path) -> Certificate:
    public = folder / "public" if (folder / "public").is_dir() else folder
    try:
        return parse_certificate((public / "certificate.json").read_bytes())
    except OSError:
        raise AuditError(not_public(public, "certificate.json")) from None
    except ValueError:
        rule, fix = "this is no certificate of this format", "audit with the version that made it"
        raise AuditError(f"{public / 'certificate.json'}: {rule}. Fix: {fix}") from None
