"""Maps of a release: one offline HTML file with flows, distances and the certificate."""

from pipelines.maps.page import build_map, write_map

__all__ = ["build_map", "write_map"]
