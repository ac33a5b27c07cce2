"""A file from an object store, or another that fsspec reads: whole, or one error without secrets."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geo_data.errors import InputError

STORES = ("s3", "gs", "abfs", "sftp")
"""How addresses of stores begin; others, as ``file``, would read what nobody means to fetch."""

_ADDRESS = re.compile(rf"(?:{'|'.join(STORES)})://[\w.-]+(:\d{{1,5}})?/[\w.,=+~/-]+", re.ASCII)


def is_of_a_store(url: str) -> bool:
    """Say whether this is the address of one file in a store, without a password, a query or a pattern."""
    return _ADDRESS.fullmatch(url) is not None


@contextmanager
def stored(url: str, shown: str, folder: Path) -> Iterator[Path]:
    """Copy a file into a folder of its own, which only its owner can look into; it is removed at the end.

    `shown` is the address as errors may show it. Only one process may do so in `folder` at a time.
    """
    import fsspec  # type: ignore[import-untyped]

    partial = folder / ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    path, rule, fix = partial / "file", "", ""
    try:
        try:
            store, name = fsspec.url_to_fs(url)
            size = store.info(name)["size"]
            store.get_file(name, str(path))
        except FileNotFoundError:
            rule, fix = "the store has no such file", "compare the address with what is in the store"
        except PermissionError:
            rule, fix = "the store refuses", "see which credentials the package that reads it finds"
        except ImportError as error:
            rule, fix = f"a package is missing ({error})", 'for s3://, pip install "odsynth[s3]"'
        except Exception as error:  # each store has errors of its own, whose texts may hold what is secret
            rule, fix = f"the store cannot be read ({type(error).__name__})", "try again later"
        else:
            if path.stat().st_size != size:
                rule, fix = "the file did not come whole, or was replaced meanwhile", "try again"
        if rule:
            raise InputError(shown, rule, fix=fix)
        yield path
    finally:
        shutil.rmtree(partial, ignore_errors=True)
