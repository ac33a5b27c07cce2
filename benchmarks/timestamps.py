"""A time-stamp authority (RFC 3161) of this machine: openssl signs what a server of one thread is asked."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

_SETTINGS = """
[req]
distinguished_name = dn
[dn]
[ca]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
[stamping]
extendedKeyUsage = critical, timeStamping
keyUsage = critical, digitalSignature
[authority]
serial = serial
signer_cert = signer.pem
signer_key = signer.key
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256
"""


class Authority(NamedTuple):
    """Where it is asked, and the certificates that it is known by."""

    address: str
    certificates: Path


@contextmanager
def authority(folder: Path) -> Iterator[Authority]:
    """Serve one whose keys are in this new folder."""
    folder.mkdir()
    (folder / "settings").write_text(_SETTINGS)
    (folder / "serial").write_text("01\n")
    config = ["-config", "settings"]
    new = ["-newkey", "rsa:2048", "-nodes", *config]
    by_ca = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "settings"]
    for arguments in (
        ["req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-extensions", "ca"],
        ["req", *new, "-keyout", "signer.key", "-out", "signer.csr", "-subj", "/CN=signer"],
        ["x509", "-req", "-in", "signer.csr", "-out", "signer.pem", *by_ca, "-extensions", "stamping"],
    ):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            (folder / "query").write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            command = ["openssl", "ts", "-reply", "-queryfile", "query", *config, "-section", "authority"]
            answer = subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Authority(f"http://127.0.0.1:{server.server_port}/", folder / "ca.pem")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
