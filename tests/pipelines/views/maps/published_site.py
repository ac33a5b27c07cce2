"""A site as the service is: a list of what is published, and maps; it remembers what it was asked for."""

from __future__ import annotations

from http.server import SimpleHTTPRequestHandler
from typing import ClassVar

LIST = "/api/v1/releases"


class PublishedSite(SimpleHTTPRequestHandler):
    """Its pages by path; tests set them."""

    pages: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        content = self.pages.get(self.path)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Type", "application/json" if self.path == LIST else "text/html")
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""
