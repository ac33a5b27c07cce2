"""Maps of a release: one offline HTML file with flows, distances and the certificate."""

from pipelines.views.maps.backdrop import Backdrop
from pipelines.views.maps.page import build_map, certificate_words, write_map

__all__ = ["Backdrop", "build_map", "certificate_words", "write_map"]
