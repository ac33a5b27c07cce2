"""A newcomer's walk through the ten commonest questions about commuting, counted in clicks.

Usage: python benchmarks/public_walk.py OLDER NEWER [--before REVISION] [--page benchmarks/public_walk.md]

OLDER and NEWER are configurations of releases of Rhode Island, of two years, that are fit for publication.
The releases are made and published into a temporary folder, and the service is started on it; with --before
also by that revision of the program, built in a checkout of its own. For each question the newcomer begins at
the home page, on a laptop and on a phone, and types names of towns as people do. Whoever does not see a town
in a list types more of its name. A click is a press of a link, a button, a field or an area of a list. The
answer must be in the page, else the walk is an error.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click
import report
from browser import IDLE, launch
from checkouts import checkout, releases
from playwright.sync_api import Browser, Locator, Page, sync_playwright
from public_pages import SIZES, published

COMMAND = "python benchmarks/public_walk.py"
SECONDS = 60
WORKERS, RESIDENTS = "work", "home"


class Newcomer:
    """Somebody who opens the home page and presses what leads to an answer; what is pressed is counted."""

    def __init__(self, browser: Browser, address: str, size: str) -> None:
        context = browser.new_context(viewport=SIZES[size], accept_downloads=True)  # type: ignore[arg-type]
        self.page: Page = context.new_page()
        self.page.set_default_timeout(SECONDS * 1_000)
        self.page.goto(address)
        self.clicks, self.typed = 0, 0
        # Before answers began on the home page, and towns were found.
        self.is_now = bool(self.page.locator("button[name=side]").count())

    def press(self, what: Locator) -> None:
        """Press something."""
        what.first.click()
        self.clicks += 1

    def type(self, field: Locator, words: str) -> None:
        """Press a field, and type."""
        self.press(field)
        field.fill(words)
        self.typed += 1

    def link(self, words: str) -> Locator:
        """A link or a button of these words."""
        return self.page.get_by_role("link", name=words).or_(self.page.get_by_role("button", name=words))

    def ask(self, side: str, town: str) -> None:
        """Ask about a town, without the map."""
        if not self.page.locator("#area").count():
            self.press(self.link("Ask about an area"))
        for words in (town.removesuffix(" city").removesuffix(" town"), town):
            if not self.is_now and not self.page.locator(f"input[name=side][value={side}]").is_checked():
                self.press(self.page.locator(f"input[name=side][value={side}]"))
            self.type(self.page.locator("#area"), words)
            if self.is_now:
                self.press(self.page.locator(f"button[name=side][value={side}]"))
            else:
                self.press(self.page.get_by_role("button", name="Show"))
            self.page.wait_for_url("**/flows?*area=*")
            listed = self.page.locator("main li a", has_text=re.compile(f"^{town} \\("))
            if listed.count():
                self.press(listed)
                self.page.locator("#answer, .answer").wait_for(state="attached")
                return
            if self.page.locator("#answer, .answer").count():
                return

    def open_map(self) -> None:
        """Open the map of what is seen."""
        self.press(self.link("This on the map").or_(self.link("Open the map")))
        self.drawn()

    def drawn(self) -> None:
        """Wait for the map."""
        self.page.wait_for_selector("html[data-ready]", state="attached")
        self.page.evaluate(IDLE)

    def find(self, town: str) -> None:
        """Find a town on the map."""
        self.type(self.page.locator("#search"), town.removesuffix(" city"))
        self.press(self.page.locator("#found li", has_text=re.compile(f"{town} \\(")))

    def sees(self, pattern: str) -> None:
        """The answer, which must be there."""
        text = re.sub(r"\s+", " ", self.page.locator("body").inner_text())
        if not re.search(pattern, text):
            raise click.ClickException(f"{self.page.url}: there is no {pattern!r}")

    def top_of_number(self) -> int:
        """How many pixels below the top of the page the number of an answer begins."""
        number = self.page.locator(".answer strong, section[aria-labelledby=answer] p").first
        return round(number.evaluate("(e) => e.getBoundingClientRect().top + scrollY"))


def residents_work(newcomer: Newcomer) -> None:
    newcomer.ask(RESIDENTS, "Providence city")
    newcomer.sees("Providence city.*4400759000 [0-9,]+ [0-9]+")


def workers_live(newcomer: Newcomer) -> None:
    newcomer.ask(WORKERS, "Warwick city")
    newcomer.sees("Warwick city.*4400374300 [0-9,]+ [0-9]+")


def in_and_out(newcomer: Newcomer) -> None:
    if newcomer.is_now:
        newcomer.ask(WORKERS, "Cranston city")
    else:
        newcomer.open_map()
        newcomer.find("Cranston city")
    newcomer.sees("(?i)come (here to work|from elsewhere) [0-9,]+.* leave (to|for) work elsewhere [0-9,]+")


def distance_and_direction(newcomer: Newcomer) -> None:
    if newcomer.is_now:
        newcomer.ask(RESIDENTS, "Providence city")
        newcomer.open_map()
    else:
        newcomer.open_map()
        newcomer.find("Providence city")
        newcomer.press(newcomer.page.locator("#side-home"))
    newcomer.sees("How far, in which direction")
    newcomer.page.locator("#rose svg").wait_for()


def by_earnings(newcomer: Newcomer) -> None:
    if newcomer.is_now:
        newcomer.ask(WORKERS, "Newport city")
    else:
        newcomer.open_map()
        newcomer.find("Newport city")
    newcomer.sees("(?i)who they are.*1,250 dollars a month or less.*[0-9,]{3}")


def within_radius(newcomer: Newcomer) -> None:
    if newcomer.is_now:
        newcomer.ask(WORKERS, "Pawtucket city")
        newcomer.press(newcomer.link("within 5 km"))
        newcomer.drawn()
    else:
        newcomer.open_map()
        newcomer.find("Pawtucket city")
        newcomer.press(newcomer.page.locator("#several summary"))
        newcomer.press(newcomer.page.locator("#around-chosen"))
    newcomer.sees("5 km around")


def two_places(newcomer: Newcomer) -> None:
    newcomer.open_map()
    newcomer.find("Providence city")
    newcomer.press(newcomer.page.locator("#keep"))
    newcomer.find("Warwick city")
    newcomer.page.locator("#chosen", has_text="Warwick city").wait_for()
    newcomer.sees("Side by side")


def between_years(newcomer: Newcomer) -> None:
    newcomer.ask(WORKERS, "Warwick city")
    if newcomer.is_now:
        newcomer.press(newcomer.link("Rhode Island 2018"))
    else:
        newcomer.press(newcomer.link("Synthetic commuting data"))
        newcomer.press(newcomer.link("Rhode Island 2018"))
        newcomer.ask(WORKERS, "Warwick city")
    newcomer.sees("Rhode Island 2018.*Warwick city")


def top_ten(newcomer: Newcomer) -> None:
    newcomer.ask(RESIDENTS, "Pawtucket city")
    newcomer.page.locator("main table").first.locator("tbody tr").nth(9).wait_for()


def the_table(newcomer: Newcomer) -> None:
    if newcomer.is_now:
        newcomer.ask(RESIDENTS, "Pawtucket city")
        with newcomer.page.expect_download():
            newcomer.press(newcomer.link("numbers, CSV"))
    else:
        newcomer.open_map()
        newcomer.find("Pawtucket city")
        newcomer.press(newcomer.page.locator("#side-home"))
        with newcomer.page.expect_download():
            newcomer.press(newcomer.page.get_by_role("button", name="Areas, CSV"))


QUESTIONS: dict[str, Callable[[Newcomer], None]] = {
    "Where do the residents of Providence work?": residents_work,
    "Where do the workers of Warwick live?": workers_live,
    "Who comes to Cranston, who leaves, who stays?": in_and_out,
    "How far, and in which direction, do residents of Providence go?": distance_and_direction,
    "How old are those who work in Newport, what do they earn, in which industry?": by_earnings,
    "Who works within 5 km of Pawtucket?": within_radius,
    "Providence beside Warwick": two_places,
    "The workers of Warwick in 2019 and in 2018": between_years,
    "The ten commonest destinations from Pawtucket": top_ten,
    "The table of that, to keep": the_table,
}


@click.command()
@click.argument("configs", nargs=2, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--before", metavar="REVISION", help="Also walk through that revision of the program.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(configs: tuple[Path, Path], before: str | None, page: Path | None) -> None:
    """Walk, print, and fill the page."""
    walks = {}
    for revision in (before, None) if before else (None,):
        with ExitStack() as stack:
            program = stack.enter_context(checkout(revision))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            outs = releases(program, configs, folder)
            address, _ = stack.enter_context(published(folder, outs, program))
            browser = launch(stack.enter_context(sync_playwright()))
            walks[revision or "now"] = walk(browser, address)
            browser.close()
    text = told(walks)
    print(text)
    if page is not None:
        report.fill(page, COMMAND, text)


@dataclass(frozen=True)
class Walk:
    """What a walk took."""

    clicks: dict[str, int]
    typed: dict[str, int]
    tops: dict[str, int]  # By size, of the first answer


def walk(browser: Browser, address: str) -> Walk:
    """Ask every question, on a phone and on a laptop, which must take the same."""
    took = Walk({}, {}, {})
    for question, steps in QUESTIONS.items():
        ways = []
        for size in SIZES:
            newcomer = Newcomer(browser, address, size)
            steps(newcomer)
            if steps is residents_work:
                took.tops[size] = newcomer.top_of_number()
            newcomer.page.context.close()
            ways.append((newcomer.clicks, newcomer.typed))
        if len({*ways}) > 1:
            raise click.ClickException(f"{question} takes other clicks on a phone than on a laptop: {ways}")
        took.clicks[question], took.typed[question] = ways[0]
    return took


def told(walks: dict[str, Walk]) -> str:
    """The table, and where the number of an answer is."""
    heads = [f"{name}: {what}" for name in walks for what in ("clicks", "words typed")]
    numbers = [each for walk in walks.values() for each in (walk.clicks, walk.typed)]
    rows = [[question, *(str(each[question]) for each in numbers)] for question in QUESTIONS]
    rows.append(["all ten", *(str(sum(each.values())) for each in numbers)])
    tops = [
        f"{name}: {walk.tops['phone']} pixels from the top on a phone ({SIZES['phone']['height']} high), "
        f"{walk.tops['laptop']} on a laptop ({SIZES['laptop']['height']} high)"
        for name, walk in walks.items()
    ]
    table = report.table(["question", *heads], rows)
    return f"{table}\n\nWhere the number of the first answer begins, {'; '.join(tops)}."


if __name__ == "__main__":
    main()
