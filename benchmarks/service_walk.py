"""A walk through the service in a browser, from `odsynth serve` on the demo region to a published release.

Usage: python benchmarks/service_walk.py [--images FOLDER]

An operator plans a release of the demo region and queues it; another person looks at its certificate and map,
and approves it; anybody opens its page and its map. Prints how long each took, and, with --images, writes the
pictures of the documentation. Needs a checkout without changes: releases of another cannot be published. The
browser is a headless chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import click
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]
IDLE = """() => new Promise((done) => {
    const { map } = document.getElementById("map");
    map.once("idle", done);
    map.triggerRepaint();
})"""
MILLISECONDS = 300_000


@click.command()
@click.option("--images", type=click.Path(path_type=Path, file_okay=False), help="Also write pictures there.")
def main(images: Path | None) -> None:
    """Walk, and print."""
    with (
        tempfile.TemporaryDirectory() as folder,
        service(Path(folder)) as (address, tokens),
        sync_playwright() as driver,
    ):
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        print(f"chromium {chromium.version}")
        walk(chromium, address, tokens, images)
        chromium.close()


@contextmanager
def service(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The service as `odsynth serve --init` begins it; its address, and the tokens of two people."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ODSYNTH_")}
    environment |= {"ODSYNTH_PORT": str(port), "ODSYNTH_LOG": str(folder / "service.log")}
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


def walk(chromium: Browser, address: str, tokens: dict[str, str], images: Path | None) -> None:
    """From the submission to the map."""
    requests: list[str] = []
    complaints: list[str] = []

    def person() -> Page:
        page = chromium.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.set_default_timeout(MILLISECONDS)
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        return page

    def picture(page: Page, name: str, whole: bool = False) -> None:
        if images is not None:
            path = images / f"service_{name}.png"
            page.screenshot(path=path, full_page=whole)
            print(f"  {path.name}: {path.stat().st_size / 1e3:.0f} kB")

    ann, bob, reader = person(), person(), person()
    for page, name in ((ann, "ann"), (bob, "bob")):
        page.goto(f"{address}/operator")
        page.get_by_label("Token").fill(tokens[name])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Dashboard").wait_for()

    ann.goto(f"{address}/operator/inputs")
    ann.get_by_label("Version to publish it under").fill("2019.1")
    begin = time.perf_counter()
    ann.get_by_role("button", name="Plan a release").click()
    ann.get_by_role("button", name="Queue the release").wait_for()
    print(f"planned in {time.perf_counter() - begin:.1f} s")

    begin = time.perf_counter()
    ann.get_by_label("this cannot be taken back").check()
    ann.get_by_role("button", name="Queue the release").click()
    ann.get_by_role("cell", name="Drawing synthetic workers").wait_for()
    picture(ann, "run", whole=True)
    ann.get_by_role("heading", name="It waits for approval").wait_for()
    print(f"released in {time.perf_counter() - begin:.1f} s")

    bob.goto(f"{address}/operator")
    bob.get_by_role("link", name="Run 1").click()
    begin = time.perf_counter()
    bob.get_by_role("link", name="Look at the release, and decide").click()
    if bob.get_by_text("It is not for release").count():
        raise click.ClickException(
            "this checkout has changes, so its releases are not for publication; commit them"
        )
    while not bob.locator("iframe").count():
        time.sleep(0.5)
        bob.reload()
    bob.locator("iframe").content_frame.locator("html[data-ready]").wait_for(state="attached")
    print(f"map of what waits for approval after {time.perf_counter() - begin:.1f} s")
    bob.locator("iframe").content_frame.locator("html").evaluate(IDLE)
    picture(bob, "approval", whole=True)
    begin = time.perf_counter()
    approval = bob.locator("form", has=bob.get_by_role("button", name="Approve and publish"))
    for box in approval.get_by_role("checkbox").all():
        box.check()
    bob.get_by_role("button", name="Approve and publish").click()
    bob.get_by_role("link", name="Public page of the release").click()
    print(f"published in {time.perf_counter() - begin:.1f} s")

    reader.goto(address)
    reader.get_by_role("link", name="Demo region").wait_for()
    reader.get_by_role("link", name="Demo region").click()
    reader.get_by_role("link", name="Open the map").wait_for()
    reader.get_by_role("link", name="Open the map").click()
    reader.wait_for_selector("html[data-ready]", state="attached")
    reader.locator("#top button").first.click()
    reader.evaluate(IDLE)
    picture(reader, "map")

    elsewhere = {urlsplit(url).netloc for url in requests} - {urlsplit(address).netloc, ""}
    print(f"{len(requests)} requests, {len(elsewhere)} other hosts; {len(complaints)} errors in the browser")
    if elsewhere or complaints:
        raise click.ClickException("\n".join([*elsewhere, *complaints]))


if __name__ == "__main__":
    main()
