"""A walk through the service in a browser, from `odsynth serve --init` to a published release.

Usage: python benchmarks/service_walk.py [--images FOLDER] [--views FOLDER]

An operator compares plans of the demo region, makes one of them and queues it; another person is sent a
mail, looks at certificate and map, and approves it by keyboard alone; anybody opens its page and its map. A
second run fails, as a public file has changed, and is tried again and rejected; a comparison that fails is
closed; the release is withdrawn. Prints how long each took. Every page of the operators, in every state on
the way, is looked at by axe-core on a phone in dark and on a laptop in light; what it finds, what is wider
than the screen, what is asked of other hosts and what the browser complains of, is an error. --images
writes the pictures of the documentation, --views two of each of those pages. Needs a checkout without
changes: releases of another cannot be published. npm fetches axe-core; the browser is a headless chromium.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from browser import IDLE, fetch_axe, launch, violations
from playwright.sync_api import Browser, Page, sync_playwright

MILLISECONDS = 300_000
SIZES = {"dark": {"width": 390, "height": 844}, "light": {"width": 1280, "height": 800}}
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
FOCUSED = "document.activeElement.innerText || document.activeElement.name || ''"
MOST_KEYS = 60


@click.command()
@click.option("--images", type=click.Path(path_type=Path, file_okay=False), help="Also write pictures there.")
@click.option(
    "--views", type=click.Path(path_type=Path, file_okay=False), help="Also write each page, at two widths."
)
def main(images: Path | None, views: Path | None) -> None:
    """Walk, and print."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mail_server() as mails,
        service(Path(folder), mails.server_address[1]) as (address, tokens),
        sync_playwright() as driver,
    ):
        chromium = launch(driver)
        print(f"chromium {chromium.version}")
        looker = Looker(fetch_axe(Path(folder)), views)
        walk(chromium, address, tokens, images, looker, Path(folder), mails)
        chromium.close()
        print(f"{looker.number} views of {looker.pages} pages and states; {len(looker.problems)} problems")
        if looker.problems:
            raise click.ClickException("\n".join(looker.problems))


class Mail(socketserver.StreamRequestHandler):
    """A mail server that keeps what it is given."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        for line in iter(self.rfile.readline, b""):
            if line.strip().upper() == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.server.got.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())  # type: ignore[attr-defined]
            self.wfile.write(b"250 ok\r\n")


@contextmanager
def mail_server() -> Iterator[Any]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mail) as server:
        server.got = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class Looker:
    """Looks at pages as they are at a moment, and keeps what is wrong with them."""

    def __init__(self, axe: str, views: Path | None) -> None:
        self._axe, self._views = axe, views
        self.number, self.pages = 0, 0
        self.problems: list[str] = []
        if views is not None:
            views.mkdir(parents=True, exist_ok=True)

    def at(self, page: Page, name: str) -> None:
        """Look on a phone in dark and on a laptop in light, as which the page is left."""
        self.pages += 1
        opened = "details:not([open]) > summary"
        page.evaluate(
            "(selector) => document.querySelectorAll(selector).forEach((e) => (e.parentElement.open = true))",
            opened,
        )
        for scheme, viewport in SIZES.items():
            page.set_viewport_size(viewport)  # type: ignore[arg-type]
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            self.number += 1
            self.problems += [f"{name}, {scheme}: {each}" for each in violations(page, self._axe)]
            if (wider := page.evaluate(WIDER)) > 0:
                self.problems.append(f"{name}, {scheme}: {wider} pixels wider than the screen")
            if self._views is not None:
                page.screenshot(path=self._views / f"{name}-{scheme}.png", full_page=True)


def keys_to(page: Page, wanted: str, key: str = "Tab") -> int:
    """Press a key until what has the focus is called so; how often."""
    for pressed in range(1, MOST_KEYS + 1):
        page.keyboard.press(key)
        if page.evaluate(FOCUSED) == wanted:
            return pressed
    raise click.ClickException(f"{wanted} is not reached by {MOST_KEYS} times {key}")


def approve_by_keys(bob: Page) -> tuple[int, int]:
    """From the dashboard: keys until the decision has the focus, and until it is made."""
    keys = 0
    for wanted in ("Skip to the content", "Decide", "Skip to the content", "To the decision"):
        keys += keys_to(bob, wanted)
        bob.keyboard.press("Enter")
        keys += 1
        if wanted == "Decide":
            bob.get_by_role("heading", name="The decision").wait_for()
    reached = keys
    for box in ("certificate", "accuracy", "map", "name"):
        keys += keys_to(bob, box) + 1
        bob.keyboard.press("Space")
    keys += keys_to(bob, "Approve and publish") + 1
    bob.keyboard.press("Enter")
    return reached, keys


@contextmanager
def service(folder: Path, mail_port: int) -> Iterator[tuple[str, dict[str, str]]]:
    """The service as `odsynth serve --init` begins it; its address, and the tokens of two people."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ODSYNTH_")}
    environment |= {"ODSYNTH_PORT": str(port), "ODSYNTH_LOG": str(folder / "service.log")}
    told = {"SMTP": f"smtp://127.0.0.1:{mail_port}", "SENDER": "odsynth@example.org"}
    told |= {"OPERATORS": "ann@example.org", "APPROVERS": "bob@example.org"}
    environment |= {f"ODSYNTH_NOTICES__{name}": value for name, value in told.items()}
    command = [sys.executable, "-m", "pipelines.cli", "serve", "--init", str(folder / "service.toml")]
    said = folder / "said"
    with said.open("w") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        secrets = re.findall(r"odsynth_[0-9a-f]{8}_[\w-]{43}", said.read_text())
        yield f"http://127.0.0.1:{port}", dict(zip(("ann", "bob"), secrets, strict=True))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def walk(
    chromium: Browser,
    address: str,
    tokens: dict[str, str],
    images: Path | None,
    looker: Looker,
    folder: Path,
    mails: Any,
) -> None:
    """From the comparison of plans to the map; then what may go wrong."""
    requests: list[str] = []
    complaints: list[str] = []
    look = looker.at

    def person() -> Page:
        page = chromium.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.set_default_timeout(MILLISECONDS)
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", heard)
        return page

    def heard(said: Any) -> None:
        if said.type == "error" and "status of 4" not in said.text:  # of what is looked at on purpose
            complaints.append(said.text)

    def picture(page: Page, name: str, whole: bool = False) -> None:
        if images is not None:
            path = images / f"service_{name}.png"
            page.screenshot(path=path, full_page=whole)
            print(f"  {path.name}: {path.stat().st_size / 1e3:.0f} kB")

    def goes(page: Page, path: str, name: str) -> None:
        page.goto(f"{address}/operator{path}")
        look(page, name)

    ann, bob, reader = person(), person(), person()
    goes(ann, "", "login")
    ann.get_by_label("Token").fill("wrong")
    ann.get_by_role("button", name="Sign in").click()
    ann.get_by_text("This token is not valid").wait_for()
    look(ann, "login-refused")
    for page, name in ((ann, "ann"), (bob, "bob")):
        page.goto(f"{address}/operator")
        page.get_by_label("Token").fill(tokens[name])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Dashboard").wait_for()
    look(ann, "dashboard-empty")
    for path in ("/runs", "/releases", "/calendar", "/ledger", "/audit", "/compare", "/runs/99"):
        goes(ann, path, f"{path[1:].replace('/', '-')}-empty")
    goes(bob, "/tokens", "tokens")
    goes(bob, "/inputs", "inputs-approver")
    goes(ann, "/inputs", "inputs")

    ann.get_by_role("link", name="Compare plans").click()
    ann.get_by_role("button", name="Compare these plans").wait_for()
    ann.get_by_label("several with commas between").fill("4, 8.6")
    ann.get_by_label("dirichlet").uncheck()
    ann.get_by_label("geometric").check()
    ann.get_by_label("Home areas of table 1").select_option("trct")
    ann.get_by_label("By attribute, table 1").select_option("SE")
    look(ann, "compare-form")
    begin = time.perf_counter()
    ann.get_by_role("button", name="Compare these plans").click()
    ann.get_by_text(" of 4)").wait_for()
    look(ann, "comparing")
    ann.get_by_role("heading", name="Table by table").wait_for()
    print(f"four plans compared in {time.perf_counter() - begin:.1f} s")
    look(ann, "compared")
    goes(bob, "/runs/1", "compared-approver")

    begin = time.perf_counter()
    ann.get_by_label("Choose plan 2").check()
    ann.get_by_label("Version to publish it under").fill("2019.1")
    ann.get_by_role("button", name="Make this plan").click()
    ann.get_by_role("heading", name="Progress").wait_for()
    look(ann, "planning")
    ann.get_by_role("button", name="Queue the release").wait_for()
    print(f"planned in {time.perf_counter() - begin:.1f} s")
    look(ann, "planned")
    goes(bob, "/runs/2", "planned-approver")
    goes(ann, "", "dashboard-planned")
    ann.goto(f"{address}/operator/runs/2")

    begin = time.perf_counter()
    ann.get_by_label("this cannot be taken back").check()
    ann.get_by_role("button", name="Queue the release").click()
    ann.get_by_role("cell", name="Drawing synthetic workers").wait_for()
    look(ann, "running")
    picture(ann, "run", whole=True)
    ann.get_by_role("heading", name="It waits for approval").wait_for()
    print(f"released in {time.perf_counter() - begin:.1f} s")
    look(ann, "finished")

    bob.goto(f"{address}/operator/runs/2/approval")
    begin = time.perf_counter()
    if bob.get_by_text("It is not for release").count():
        raise click.ClickException(
            "this checkout has changes, so its releases are not for publication; commit them"
        )
    look(bob, "approval-without-map")
    while not bob.locator("iframe").count():
        time.sleep(0.5)
        bob.reload()
    bob.locator("iframe").content_frame.locator("html[data-ready]").wait_for(state="attached")
    print(f"map of what waits for approval after {time.perf_counter() - begin:.1f} s")
    bob.locator("iframe").content_frame.locator("html").evaluate(IDLE)
    look(bob, "approval")
    picture(bob, "approval", whole=True)
    goes(ann, "/runs/2/approval", "approval-operator")
    letters = [each for each in mails.got if "To: bob@example.org" in each]
    if len(letters) != 1 or "/operator/runs/2/approval" not in letters[0]:
        raise click.ClickException(f"{len(letters)} mails for the approver; there should be one, with a link")
    goes(bob, "", "dashboard-approver")
    begin = time.perf_counter()
    reached, keys = approve_by_keys(bob)
    print(f"approved by keyboard: {reached} keys from the dashboard to the decision, {keys} until it is made")
    bob.get_by_role("link", name="Public page of the release").wait_for()
    print(f"published in {time.perf_counter() - begin:.1f} s")
    look(bob, "published")
    goes(ann, "/runs/2/approval", "approval-decided")
    goes(ann, "/releases", "releases")
    ann.get_by_role("link", name="Demo region").click()
    look(ann, "release")

    reader.goto(address)
    reader.get_by_role("link", name="Demo region").first.click()
    reader.get_by_role("link", name="Open the map").first.click()
    reader.wait_for_selector("html[data-ready]", state="attached")
    reader.locator("#top button").first.click()
    reader.evaluate(IDLE)
    picture(reader, "map")

    go_wrong(ann, bob, address, look, goes, folder)

    elsewhere = {urlsplit(url).netloc for url in requests} - {urlsplit(address).netloc, ""}
    print(f"{len(requests)} requests, {len(elsewhere)} other hosts; {len(complaints)} errors in the browser")
    if elsewhere or complaints:
        raise click.ClickException("\n".join([*elsewhere, *complaints]))


def go_wrong(
    ann: Page,
    bob: Page,
    address: str,
    look: Callable[[Page, str], None],
    goes: Callable[[Page, str, str], None],
    folder: Path,
) -> None:
    """A run that fails, is tried again and rejected; one that is closed; one that is withdrawn."""
    (weights,) = (folder / "odsynth-service" / "demo").rglob("*population*")
    whole = weights.read_bytes()
    ann.goto(f"{address}/operator/runs/1")
    ann.get_by_label("Choose plan 2").check()
    ann.get_by_label("Version to publish it under").fill("2019.2")
    ann.get_by_role("button", name="Make this plan").click()
    ann.get_by_label("this cannot be taken back").check()
    weights.write_bytes(whole + b"\n")
    ann.get_by_role("button", name="Queue the release").click()
    ann.get_by_role("heading", name="It failed").wait_for()
    look(ann, "failed")
    goes(bob, "/runs/3", "failed-approver")
    goes(ann, "/compare?run=2&run=3", "side-by-side")
    weights.write_bytes(b"no table\n")
    goes(ann, "/inputs/demo/comparison", "compare-form-again")
    ann.get_by_role("button", name="Compare these plans").click()
    ann.get_by_role("heading", name="It failed").wait_for()
    look(ann, "comparison-failed")
    ann.get_by_label("there is no way back").check()
    ann.get_by_role("button", name="Close the run").click()
    ann.locator("main .mark", has_text="closed").wait_for()
    look(ann, "closed")
    weights.write_bytes(whole)
    goes(ann, "", "dashboard-failed")
    ann.goto(f"{address}/operator/runs/3")
    ann.get_by_role("button", name="Try again").click()
    ann.get_by_role("heading", name="It waits for approval").wait_for()
    goes(bob, "/runs/3/approval", "approval-of-second")
    bob.get_by_label("what it has spent stays spent").check()
    bob.get_by_role("button", name="Reject").click()
    bob.locator("main .mark", has_text="rejected").wait_for()
    look(bob, "rejected")
    bob.goto(f"{address}/operator/releases")
    bob.get_by_role("link", name="Demo region").click()
    look(bob, "release-approver")
    bob.get_by_label("What is wrong with it").fill("Block 7 is in the wrong county.")
    bob.get_by_role("button", name="Add an erratum").click()
    bob.get_by_role("heading", name="Errata").wait_for()
    bob.get_by_label("Why it should not be used").fill("The wrong year.")
    bob.get_by_label("There is no way back").check()
    bob.get_by_role("button", name="Withdraw it").click()
    bob.get_by_role("heading", name="Withdrawn on").wait_for()
    look(bob, "release-withdrawn")
    for path in ("/runs", "/releases", "/ledger", "/audit"):
        goes(ann, path, path[1:])


if __name__ == "__main__":
    main()
