"""The public folder of a release: what may be wrong with its files, and that nothing is written into it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from pipelines.storage.errors import blame, refuse_no_folder, what_is_at, with_fix
from synth.errors import ShownError

WHOLE_COPY = "take a whole copy, and check it with odsynth verify"
"""What to do about a file of a release that is damaged."""


class PublicReleaseError(ShownError, ValueError):
    """The folder is not the public folder of a release, or what was asked of it is not there."""


def blame_release(path: Path) -> AbstractContextManager[None]:
    """Say of whatever goes wrong with a file of a release that it is this file (`blame`)."""
    return blame(PublicReleaseError, f"{path}: damaged, or not as it was released", WHOLE_COPY)


def not_as_released(path: Path | str, error: Exception, fix: str = WHOLE_COPY) -> PublicReleaseError:
    """Return the error of a file of a release that cannot be used, with this fix unless it has one."""
    return PublicReleaseError(with_fix(f"{path}: {error}", fix))


def check_target(target: Path, folder: Path, *, new: bool = False) -> None:
    """Refuse to write into a public folder, whose files are sealed by its checksums."""
    if target.resolve().is_relative_to(folder.resolve()):
        raise PublicReleaseError(
            f"{target}: another file in the public folder would make odsynth verify fail. Fix: choose "
            "another place"
        )
    refuse_no_folder(target.parent, PublicReleaseError)
    if new and os.path.lexists(target):
        raise PublicReleaseError(
            f"{target}: {what_is_at(target)} is there already. Fix: move it away, or choose another folder"
        )
