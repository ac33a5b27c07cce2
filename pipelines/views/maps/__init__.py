"""Maps of a release: one offline HTML file with flows, distances and certificate, or a page of a site."""

from pipelines.views.maps.backdrop import Backdrop
from pipelines.views.maps.page import (
    PARTS,
    SiteMap,
    build_map,
    build_site_map,
    certificate_words,
    write_map,
    write_parts,
)

__all__ = [
    "PARTS",
    "Backdrop",
    "SiteMap",
    "build_map",
    "build_site_map",
    "certificate_words",
    "write_map",
    "write_parts",
]
