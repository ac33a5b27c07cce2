"""What must outlive a power cut: files and folders, pushed to the disk."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync", "sync_tree"]


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Wait until a folder, with everything below it, is on the disk."""
    for path in (*folder.rglob("*"), folder):
        sync(path)
