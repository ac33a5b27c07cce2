"""The service in a real browser: from the submission of a run to the map of what it published.

One service with one small run is for all tests. Its workers are started by the walk, so that a run can be
looked at before they take it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from helpers import COARSE_MAPS, PATIENCE
from pipelines.service import ServiceSettings, Store, create_app
from pipelines.service.access.tokens import create_token
from pipelines.service.queue.claims import count, give_back, note
from pipelines.service.queue.workers import Workers

from ..helpers import CLEAN_WORKER, claimed, serving, settings_of

pytestmark = pytest.mark.slow

LEDGER = '\n[ledger]\nfile = "ledger.sqlite"\ndata_set = "jobs"\nepsilon = "20"\ndelta = "0.5"\n'
# Of everything that is written, unless it is hidden: its colour, and what is behind it.
CONTRASTS = """() => {
    const parts = (css) => (css.match(/[\\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b]
        .map((c) => c / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const colour = parts(getComputedStyle(each).backgroundColor);
            if (colour.length < 4 || colour[3] === 1) return colour;
            if (colour[3] !== 0) throw new Error("half transparent");
        }
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
        const [a, b] = [parts(getComputedStyle(element).color), behind(element)].map(light);
        found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), walker.currentNode.data.trim()]);
    }
    return found;
}"""
# What a person who does not see the page, or uses no mouse, would miss.
OBSTACLES = """() => {
    const problems = [];
    const all = (selector) => [...document.querySelectorAll(selector)];
    if (all("main").length !== 1 || all("h1").length !== 1 || all("header nav[aria-label]").length !== 1)
        problems.push("landmarks");
    for (const each of all("input:not([type=hidden]), select, textarea"))
        if (!each.labels.length && !each.ariaLabel) problems.push(`no label: ${each.outerHTML}`);
    for (const each of all("a, button"))
        if (!each.innerText.trim()) problems.push(`no words: ${each.outerHTML}`);
    for (const each of all("table"))
        if (!each.caption || each.querySelector("thead th:not([scope]), tbody th:not([scope])"))
            problems.push("table");
    for (const each of all("table time")) if (!each.dateTime) problems.push("time");
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (wide > 0) problems.push(`${wide} pixels too wide`);
    return problems;
}"""


@dataclass
class Served:
    """A service that answers, its secrets, and what browsers asked and complained of."""

    address: str
    settings: ServiceSettings
    store: Store
    tokens: dict[str, str]
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @contextmanager
    def person(self, browser: Any, name: str | None = None, **context: Any) -> Iterator[Any]:
        """A page of a browser of one's own, signed in."""
        opened = browser.new_context(base_url=self.address, **context)
        opened.add_init_script(COARSE_MAPS)
        page = opened.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)
        if name is not None:
            page.goto("/operator")
            page.get_by_label("Token").fill(self.tokens[name])
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", name="Dashboard").wait_for()
        yield page
        opened.close()

    def _heard(self, message: Any) -> None:
        # Reading pixels back from a graphics card that is none is slow, and says so.
        if message.type in ("error", "warning") and "GPU stall" not in message.text:
            self.complaints.append(message.text)


@pytest.fixture(scope="module")
def served(
    config_text: Callable[..., str], library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """The service, with the small region as its input, and nobody at work."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "small.toml").write_text(config_text() + LEDGER)
    (folder / "worker.py").write_text(CLEAN_WORKER)
    where = {"FOLDER": folder / "state", "LOG": folder / "service.log"}
    settings = settings_of(**where, WORKERS=0, INPUTS__SMALL=folder / "small.toml")
    app = create_app(settings)
    people = {"ann": "operator", "bob": "approver"}
    tokens = {name: create_token(app.state.store, name, role)[0] for name, role in people.items()}  # type: ignore[arg-type]
    with serving(app) as address:
        yield Served(address, settings, app.state.store, tokens)


@dataclass
class Walked:
    """Where the walk went, and what was seen on the way."""

    live: list[str]
    steps: str
    approval: str
    release: str
    map: str


@pytest.fixture(scope="module")
def walked(served: Served, browser: Any) -> Walked:
    """Walk from the submission to the map of the publication."""
    at_work = Workers(
        served.settings.model_copy(update={"workers": 1}),
        served.store,
        command=(sys.executable, str(served.settings.folder.parent / "worker.py")),
    )
    with served.person(browser, "ann") as ann, served.person(browser, "bob") as bob:
        ann.get_by_role("link", name="Inputs").click()
        ann.get_by_label("Version to publish it under").fill("2019.1")
        ann.get_by_role("button", name="Plan a release").click()
        live = progress(served, ann)
        at_work.start()
        try:
            ann.get_by_label("this cannot be taken back").check()
            ann.get_by_role("button", name="Queue the release").click()
            ann.get_by_role("heading", name="It waits for approval").wait_for()
            steps = ann.locator("#progress").inner_text()
            bob.goto("/operator")
            bob.get_by_role("link", name="Run 1").click()
            bob.get_by_role("link", name="Look at the release, and decide").click()
            while not bob.locator("iframe").count():
                time.sleep(0.2)
                bob.reload()
            preview = bob.locator("iframe").content_frame
            preview.locator("html[data-ready]").wait_for(state="attached")
            approval = f"{bob.locator('.words').inner_text()}\n{preview.locator('#jobs').inner_text()}"
            form = bob.locator("form", has=bob.get_by_role("button", name="Approve and publish"))
            for box in form.get_by_role("checkbox").all():
                box.check()
            form.get_by_label("Comment").fill("Looks right.")
            bob.get_by_role("button", name="Approve and publish").click()
            bob.get_by_role("link", name="Public page of the release").click()
        finally:
            at_work.stop()
    with served.person(browser) as reader:
        reader.goto("/")
        reader.get_by_role("link", name="Demo region 2019").first.click()
        release = reader.locator("main").inner_text()
        reader.get_by_role("link", name="Open the map").click()
        reader.wait_for_selector("html[data-ready]", state="attached")
        shown = reader.locator("#jobs").inner_text()
    return Walked(live, steps, approval, release, shown)


def progress(served: Served, page: Any) -> list[str]:
    """What a page shows of a run while it looks at it, without being loaded again."""
    work = claimed(served.store)
    page.locator("main .mark", has_text="planning").wait_for()
    page.evaluate("window.same = true")
    step = note(served.store, work, "<b>Reading public inputs</b>", 1, 3)
    page.get_by_role("cell", name="Reading public inputs").wait_for()
    count(served.store, work, step, 3, 4)
    page.get_by_text("Step 1 of 3: <b>Reading public inputs</b>, 75 % (3 of 4)").wait_for()
    assert page.locator("#bar").evaluate("bar => bar.value / bar.max") == 0.75
    assert page.evaluate("window.same")
    rows = page.locator("#progress tbody tr").all_inner_texts()
    give_back(served.store, work, interrupted=False)
    return [str(row).partition("\t")[2] for row in rows]


def test_from_the_submission_to_the_map_of_the_publication(walked: Walked) -> None:
    assert walked.live == ["submitted\t", "begun\tplan", "step\t<b>Reading public inputs</b>"]
    order = [walked.steps.find(word) for word in ("planned", "queued", "Drawing", "Checking", "finished")]
    assert order[0] > -1
    assert order == sorted(order)
    assert "differential privacy" in walked.approval
    assert walked.approval.endswith("600")
    assert "Version 2019.1" in walked.release
    assert "SHA256SUMS" in walked.release
    assert walked.map == "600"


RELEASE = "/releases/demo-region-2019-all-jobs/2019.1"
PAGES = {  # with what an operator does, and with what an approver does
    "ann": (
        *("", "/inputs", "/inputs/small/comparison", "/runs", "/runs/1", "/runs/1/approval"),
        *("/compare?run=1", "/releases", "/calendar", "/ledger", "/audit", "/runs/9", "/login"),
    ),
    "bob": ("", RELEASE, "/tokens"),
}


@pytest.mark.parametrize("name", list(PAGES))
def test_every_page_is_for_everybody(served: Served, walked: Walked, browser: Any, name: str) -> None:
    """Landmarks, labels, contrast of level AA in both schemes; nothing is cut off on a narrow screen."""
    before = list(served.complaints)
    with served.person(browser, name, viewport={"width": 375, "height": 740}) as page:
        for path in PAGES[name]:
            page.goto(f"/operator{path}")
            assert page.evaluate(OBSTACLES) == [], path
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                contrasts = page.evaluate(CONTRASTS)
                assert len(contrasts) > 5
                assert [each for each in contrasts if each[0] < 4.5] == [], (path, scheme)
    served.complaints[:] = before  # of the page that is not there


def test_without_a_mouse(served: Served, walked: Walked, browser: Any) -> None:
    """Signing in, and every control, by keyboard; what has the focus shows it."""
    with served.person(browser) as page:
        page.goto("/operator/inputs")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText") == "Skip to the content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type(served.tokens["ann"])
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Registered inputs").wait_for()
        page.wait_for_load_state()  # of styles, too
        reached = []
        for _ in range(page.locator("a, button, input:not([type=hidden])").count()):
            page.keyboard.press("Tab")
            focused = "document.activeElement"
            reached.append(page.evaluate(f"{focused}.innerText || {focused}.id"))
            assert page.evaluate(f"parseFloat(getComputedStyle({focused}).outlineWidth)") >= 2, reached
        assert {"Ledger", "Sign out", "version-1", "Plan a release"} <= set(reached)


def test_without_scripts(served: Served, walked: Walked, browser: Any) -> None:
    """A page that follows a run is loaded again by the browser itself."""
    with served.person(browser, "ann", java_script_enabled=False) as page:
        page.goto("/operator/inputs")
        page.get_by_role("button", name="Plan a release").click()
        # A click waits until the next page begins to come, not until it is there.
        page.locator("meta[http-equiv=refresh]").wait_for(state="attached")
        page.get_by_role("button", name="Cancel the run").click()
        page.locator("main .mark", has_text="cancelled").wait_for()


def test_nothing_goes_elsewhere_and_nothing_is_wrong(served: Served, walked: Walked) -> None:
    """Of all that browsers did here: no request to another host, no error, nothing refused by the policy."""
    hosts = {urlsplit(url).netloc for url in served.requests if not url.startswith(("blob:", "data:"))}
    assert hosts == {urlsplit(served.address).netloc}
    assert served.complaints == []
    log = (served.settings.folder.parent / "service.log").read_text().splitlines()
    assert [line for line in log if json.loads(line).get("status", 200) >= 500] == []
