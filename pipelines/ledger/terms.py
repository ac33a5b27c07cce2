"""Terms: what the cost of a release, or a sum of costs, is a guarantee of. Lemma 38 of docs/privacy.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from pipelines.ledger.chain import LedgerError
from synth.policy import FULL, RECORD, implies

ANYWHERE = "anywhere"
_TEXT = re.compile(r"(.+); homes (anywhere|inside [0-9a-f]{16}); records ([1-9][0-9]*)")


@dataclass(frozen=True)
class Terms:
    """What a debit is a guarantee of."""

    policy: str = FULL.name  # name of the policy of homes (`synth.Policy`)
    # "anywhere"; or "inside " and a digest of the blocks of a geography, where jobs of its residents
    # are released, so that nothing is promised of a home inside and one outside.
    homes: str = ANYWHERE
    records: int = 1  # of a person with at most so many

    @classmethod
    def of(cls, text: str | None) -> Terms:
        """Return the terms that a debit names."""
        if (parts := _TEXT.fullmatch(text or "")) is None:
            raise LedgerError(
                f"{text!a} are not the terms of a debit. Fix: copy the terms of another debit, or write "
                "POLICY; homes anywhere; records 1"
            )
        return cls(parts[1], parts[2], int(parts[3]))

    @classmethod
    def of_sum(cls, summed: Sequence[Terms]) -> Terms | None:
        """Return what the sum of costs on such terms is a guarantee of; None if that is nothing with a name.

        The policy is one that all others imply. Of homes that lie inside the geography of each release all
        costs are bounds.
        """
        if len(summed) == 1:
            return summed[0]
        policies = dict.fromkeys(terms.policy for terms in summed)
        common = (name for name in policies if all(implies(other, name) for other in policies))
        inside = {terms.homes for terms in summed} - {ANYWHERE}
        if len(inside) > 1 or (policy := next(common, None)) is None:
            return None
        return cls(policy, next(iter(inside), ANYWHERE), min(terms.records for terms in summed))

    def __str__(self) -> str:
        return f"{self.policy}; homes {self.homes}; records {self.records}"

    @property
    def words(self) -> str:
        """The same for people."""
        policy = "" if self.policy == FULL.name else f" under the policy {self.policy}"
        protected = "whole records" if self.policy == RECORD else f"homes {self.homes}{policy}"
        return f"{protected}, at most {self.records:,} job record(s) a person"


def conflict(former: Terms, latter: Terms) -> str:
    """Say why costs on two terms do not add up, by the key of the configuration, and what to do."""
    if len({former.homes, latter.homes} - {ANYWHERE}) > 1:
        return (
            "geography, with jobs.population: both release jobs of residents, but of different blocks. Fix: "
            "keep the blocks of the first release, or release jobs of workers who live anywhere "
            "(geography.external_zones)"
        )
    (kind, _, first), (other_kind, _, second) = (terms.policy.partition(" ") for terms in (former, latter))
    digests, second_digests = (
        {part.rpartition(":")[0]: part for part in name.split("/")} for name in (first, second)
    )
    changed = next(
        (name for name, digest in digests.items() if second_digests.get(name, digest) != digest), None
    )
    if kind == other_kind == "attribute":
        changed = changed or min(digests.keys() ^ second_digests.keys())
        return (
            f"privacy.protects: {unquote(changed)} has other categories, or is protected in one release "
            "only. Fix: always protect the same attributes and list all categories that may ever come, or "
            "write "
            'policy = "full"'
        )
    if kind == other_kind and (changed is not None or kind == "distance"):
        areas = "blocks or their places" if kind == "distance" else f"units of {changed!r} or their blocks"
        return (
            f"geography: the {areas} differ. Fix: keep the crosswalk and groupings of the first release, "
            "with "
            'every place that may ever come, or write policy = "full"'
        )
    return (
        f"privacy.policy: the policies are {former.policy!r} and {latter.policy!r}. Fix: write the same "
        "policy, "
        'or policy = "full"'
    )
