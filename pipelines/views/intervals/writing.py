"""Writing intervals of jobs by workplace, of a release that estimates these."""

from __future__ import annotations

from pathlib import Path

from geo_data.arguments import PathLike, path_of
from pipelines.plans.measured import table_in_words
from pipelines.release.certificate import secret_in_words
from pipelines.release.pages import phrases
from pipelines.storage.durable import whole_folder
from pipelines.storage.progress import Progress
from pipelines.views.folder import PublicReleaseError, check_target
from pipelines.views.intervals.workplaces import WorkplaceIntervals
from pipelines.views.pages import render
from pipelines.views.release import Release

README = "README.txt"
_GZIP = {"method": "gzip", "compresslevel": 6, "mtime": 0}


def write_intervals(
    release: Release, to: PathLike | None = None, progress: Progress | None = None
) -> dict[str, Path]:
    """Write intervals of jobs by workplace (`Release.write_intervals`)."""
    to = release.out / "intervals" if to is None else path_of(to, "to")
    if not release.plan.workplaces:
        raise PublicReleaseError(
            f"{release.public}: its jobs by workplace are exact, so they have no intervals. Fix: for "
            "intervals of homes and flows, read intervals.parquet in it (Release.draws)"
        )
    check_target(to, release.public, new=True)
    to.parent.mkdir(parents=True, exist_ok=True)
    intervals, language = WorkplaceIntervals(release), release.language
    names, written = {}, []
    with whole_folder(to, mode=None) as new_folder:
        for i, (level, by) in enumerate(intervals.tables):
            if (jobs := intervals.jobs(level, by)) is not None:
                name = f"{'_'.join(['jobs', *filter(None, [level]), *(f'by_{each}' for each in by)])}.csv.gz"
                names[table_in_words(None, level, by)] = name
                written.append((level, by, name))
                jobs.to_csv(new_folder / name, index=False, lineterminator="\n", compression=_GZIP)
            if progress is not None:
                progress(i + 1, len(intervals.tables))
        text = render(
            "intervals_of_workplaces.txt",
            language,
            certificate=release.certificate,
            reasons=phrases(language).reasons(release.certificate),
            secret=secret_in_words(release.certificate.policy, language),
            tables=written,
        )
        (new_folder / README).write_text(f"{text}\n", encoding="utf-8")
    return {kind: to / name for kind, name in {**names, "read-me": README}.items()}
