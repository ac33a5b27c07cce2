"""What two releases have in common: what cannot be compared is refused, and both are named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from geo_data.geography import Geography
from pipelines.config.languages import ENGLISH
from pipelines.plans.workload import workload_of
from pipelines.release.certificate import Certificate
from pipelines.release.description import Attribute, attributes_of
from pipelines.views.changes.areas import ComparedAreas
from pipelines.views.changes.sides import Side
from pipelines.views.folder import PublicReleaseError
from pipelines.views.pages import phrases
from pipelines.views.release import Release

_MOST_LEVELS = 2  # that are compared where none is asked for


def check_jobs(a: Side, b: Side) -> None:
    """Refuse releases of other kinds of jobs or external zones, and a release twice."""
    if a.release.stated == b.release.stated:  # also if one of them was corrected
        raise PublicReleaseError(f"{a.name} and {b.name} are the same release")
    if _are_tiers(a.release.stated, b.release.stated):
        raise PublicReleaseError(
            f"{a.name} and {b.name} have the same title, year and tiers, and tiers of one draw differ in "
            "noise alone. Fix: compare releases of different years"
        )
    _refuse_other(a, b, "job types", *(side.release.certificate.release.job_type for side in (a, b)))
    _refuse_other(
        a, b, "populations (jobs.population)", *(side.release.config.jobs.population for side in (a, b))
    )
    one, other = a.release.geography, b.release.geography
    for words, zones in (
        ("external zones where workers live", [sorted(x.external_homes) for x in (one, other)]),
        ("external zones where they work", [sorted(x.external_workplaces) for x in (one, other)]),
    ):
        _refuse_other(a, b, words, *(", ".join(each) or "none" for each in zones))


def check_blocks(a: Side, b: Side, *, related: bool) -> None:
    """Refuse releases of other blocks; if a file relates these, releases of the same."""
    one, other = a.release.geography, b.release.geography
    only = [0, 0]
    if not one.block_codes.equals(other.block_codes):
        only = [len(_blocks(x) - _blocks(y)) for x, y in ((one, other), (other, one))]
    same = one.block_level == other.block_level and not any(only)
    if same and related:
        raise PublicReleaseError(
            f"{a.name} and {b.name} have the same blocks. Fix: compare them without a relationship file"
        )
    if not same and not related:
        kinds = (
            f"A {one.block_level}, B {other.block_level}; {only[0]:,} are in A only, {only[1]:,} in B only"
        )
        fix = (
            "compare releases of equal blocks, or name a public file that relates both (odsynth compare "
            "--relationship)"
        )
        raise PublicReleaseError(
            f"{a.name} and {b.name} have different blocks ({kinds}), so an area of the same code may be "
            f"another place. Fix: {fix}"
        )


def check_alike(a: Release, b: Release, kinds: Iterable[str]) -> None:
    """Refuse releases of other jobs, of other blocks, or whose areas of some kinds differ."""
    areas = ComparedAreas(a.geography, b.geography)
    sides = Side("A", a, areas), Side("B", b, areas)
    check_jobs(*sides)
    check_blocks(*sides, related=False)
    for kind in kinds:
        if problem := _differ(*sides, kind):
            names = " and ".join(side.name for side in sides)
            raise PublicReleaseError(f"{names}: {problem}. Fix: take releases of equal areas")


def check_years(releases: Sequence[Release]) -> None:
    """Refuse releases that are not of different years of the same jobs and areas, at every level."""
    first = releases[0]
    for a, b in combinations(releases, 2):
        check_alike(a, b, first.levels if a is first else ())
        if a.year == b.year:
            both = f"{a.public} and {b.public}"
            raise PublicReleaseError(f"{both} are both of {a.year}. Fix: name one release for each year")
    ground = common_ground(first)
    for other in releases[1:]:
        if common_ground(other) != ground:
            levels = " and ".join(", ".join(release.levels) for release in (first, other))
            raise PublicReleaseError(
                f"{first.public} and {other.public} have different levels ({levels}), or list their areas in "
                "different orders. Fix: take releases that were made of the same file of blocks"
            )


def common_ground(release: Release) -> str:
    """Return a hash that releases of the same kinds of jobs and the same areas, in order, have in common."""
    geography = release.geography
    zones = (sorted(geography.external_homes), sorted(geography.external_workplaces))
    kinds = (release.certificate.release.job_type, release.config.jobs.population)
    digest = hashlib.sha256(json.dumps([kinds, zones, release.levels]).encode())
    for level in release.levels:
        digest.update("\n".join(geography.codes(level)).encode())
        digest.update(geography.starts(level).astype("<i4").tobytes())
    return digest.hexdigest()


def _are_tiers(a: Certificate, b: Certificate) -> bool:
    """Say whether releases are tiers of one draw, as far as their certificates tell.

    One that was refined later has no tiers, and the release that refines it has its epsilon among them.
    """
    if a.release != b.release or not (a.tier or b.tier):
        return False
    epsilons = [set(c.tier.epsilons.values()) if c.tier else {c.requested.epsilon} for c in (a, b)]
    return epsilons[0] <= epsilons[1] or epsilons[1] <= epsilons[0]


def check_attribute(a: Side, b: Side, name: str, language: str) -> list[Attribute]:
    """Refuse an attribute that a release lacks, or whose categories differ; return both, if labels do."""
    for side in (a, b):
        if name not in side.release.categories:
            present = ", ".join(side.release.categories) or "none"
            raise PublicReleaseError(f"{side.name} has no attribute {name!r}; it has: {present}")
    _refuse_other(a, b, f"categories of {name}", *(", ".join(s.release.categories[name]) for s in (a, b)))
    meant = [
        attribute
        for side in (a, b)
        for attribute in attributes_of(side.release.categories, side.release.config.attribute, language)
        if attribute.name == name
    ]
    return [] if meant[0] == meant[1] else meant


def choose_areas(
    a: Side, b: Side, home: str | None, work: str | None, language: str
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the kinds of home and work areas to compare; and of those left out, why."""
    if home is not None or work is not None:
        pair = (home or work or "", work or home or "")
        for kind in dict.fromkeys(pair):
            if problem := _differ(a, b, kind):
                fix = f"Fix: choose one of these: {_common(a, b)}"
                raise PublicReleaseError(f"{a.name}, {b.name}: {problem}. {fix}")
        return [pair], []
    known = [{*_workload(side)} for side in (a, b)]
    kinds = [kind for kind in _workload(a) if kind in known[1]]
    left_out = {kind: problem for kind in kinds if (problem := _differ(a, b, kind, language))}
    block = a.release.geography.block_level
    same = [kind for kind in kinds if kind not in left_out]
    same = [kind for kind in same if kind != block] or same
    if not same:
        raise PublicReleaseError(
            f"{a.name} and {b.name}: the tables that the releases are for have no areas in common. Fix: name "
            f"areas with --home and --work, of these: {_common(a, b)}"
        )
    same.sort(key=lambda kind: (a.areas.codes(kind).size, a.release.kinds_of_areas.index(kind)))
    say = phrases(language)
    return (
        [(kind, kind) for kind in same[:_MOST_LEVELS]],
        [say.areas_left_out(kind, problem) for kind, problem in left_out.items()],
    )


def _workload(side: Side) -> list[str]:
    """Return the kinds of areas of the tables that a release is for, between which it has draws of flows."""
    tables = workload_of(side.release.plan).tables
    kinds = dict.fromkeys(kind for table in tables for kind in (table.home, table.work) if kind is not None)
    return [kind for kind in kinds if side.draws.has(kind, kind)]


def _differ(a: Side, b: Side, kind: str, language: str = ENGLISH) -> str:
    """Say why the areas of a kind cannot be compared; nothing where they can."""
    for side in (a, b):
        if kind not in side.release.kinds_of_areas:
            present = ", ".join(side.release.kinds_of_areas)
            return f"{side.letter} has no areas {kind!r}; it has: {present}"
    say = phrases(language)
    if a.areas.links is None:
        moved = _moved(a, b, kind)
        return str(say.areas_differ(kind, moved)) if moved else ""
    if a.areas.cut(kind):
        return str(say.areas_cut(kind, dict(zip("AB", a.areas.links.levels, strict=True))))
    groups = a.areas.groups(kind)
    return str(say.areas_chained(kind, groups)) if groups.chained else ""


def _moved(a: Side, b: Side, kind: str) -> int:
    """Count the blocks that are in another area of a kind in B than in A."""
    one, other = a.release.geography, b.release.geography
    codes = [geography.codes(kind)[geography.units_of_blocks(kind)] for geography in (one, other)]
    position = (
        np.arange(other.n_blocks) if one.block_codes.equals(other.block_codes) else other.number(one.blocks)
    )
    return int((codes[0] != codes[1][position]).sum())


def _common(a: Side, b: Side) -> str:
    kinds = [kind for kind in a.release.kinds_of_areas if not _differ(a, b, kind)]
    return ", ".join(kinds) or "there is none"


def _refuse_other(a: Side, b: Side, words: str, one: str, other: str) -> None:
    if one != other:
        raise PublicReleaseError(f"{a.name} and {b.name} have different {words}: A {one}, B {other}")


def _blocks(geography: Geography) -> set[str]:
    return {*geography.blocks.tolist()}
