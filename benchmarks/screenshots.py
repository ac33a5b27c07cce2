"""Pictures of Markdown pages as a host of checkouts shows them, as wide as a phone and as a laptop.

Usage: python benchmarks/screenshots.py [FOLDER] [--page docs/tutorial.md ...]

Writes a picture of every page at each width into FOLDER (by default, out/screenshots). The pages are
README.md and docs/README.md, unless --page names others. A page that is wider than the window is an error,
and a picture that does not load. Tables and code that a reader has to scroll are printed. Of a long page the
first 8,000 pixels are shown. The browser is a headless chromium.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
from browser import launch
from markdown_it import MarkdownIt
from playwright.sync_api import Browser, FloatRect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "out" / "screenshots"
READMES = ("README.md", "docs/README.md")
WIDTHS = (390, 1280)  # of a phone, and of a laptop
HEIGHT, TALLEST = 844, 8_000  # of a window; the browser repeats itself below 8,192
# As hosts of checkouts show a page: tables and code scroll inside of it, pictures fit.
STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 880px; margin: 0 auto; padding: 16px; color: #1f2328; }
body { overflow-wrap: break-word; }
h1, h2 { border-bottom: 1px solid #d1d9e0; padding-bottom: 0.3em; line-height: 1.25; }
table { display: block; width: max-content; max-width: 100%; overflow: auto; }
table { border-collapse: collapse; margin: 0 0 16px; }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; }
code { font: 85% monospace; background: #818b981f; padding: 0.2em 0.4em; border-radius: 6px; }
pre { overflow: auto; background: #f6f8fa; padding: 16px; border-radius: 6px; }
pre code { background: none; padding: 0; }
img { max-width: 100%; }
a { color: #0969da; }
"""
WRONG = """() => {
    const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
    const lost = [...document.images].filter((e) => !e.naturalWidth).map((e) => `does not load: ${e.src}`);
    return wide ? ["is wider than the window", ...lost] : lost;
}"""
SCROLLED = """() => [...document.querySelectorAll("table, pre")]
    .map((e) => [e.scrollWidth - e.clientWidth, e.innerText.split("\\n")[0].slice(0, 60)])
    .filter(([pixels]) => pixels > 1)
    .map(([pixels, text]) => `  ${pixels} pixels to scroll: ${text}`)
"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=FOLDER)
@click.option("--page", "pages", multiple=True, default=READMES, show_default=True, help="A page.")
def main(folder: Path, pages: tuple[str, ...]) -> None:
    """Write the pictures, and print where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    problems = list[str]()
    with sync_playwright() as driver:
        chromium = launch(driver)
        for page in pages:
            for width in WIDTHS:
                picture = folder / f"{page.removesuffix('.md').replace('/', '-')}-{width}.png"
                wrong, scrolled = take(chromium, ROOT / page, width, picture)
                problems += [f"{picture.name}: {each}" for each in wrong]
                click.echo("\n".join([str(picture), *scrolled]))
        chromium.close()
    if problems:
        raise click.ClickException("\n".join(problems))


def take(chromium: Browser, page: Path, width: int, picture: Path) -> tuple[list[str], list[str]]:
    """Write a picture of a page at a width, and return what is wrong with it, and what has to be scrolled."""
    shown = chromium.new_page(viewport={"width": width, "height": HEIGHT})
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as html:
        html.write(rendered(page))
        html.flush()
        shown.goto(Path(html.name).as_uri())
        height = min(TALLEST, shown.evaluate("document.documentElement.scrollHeight"))
        clip: FloatRect = {"x": 0, "y": 0, "width": width, "height": height}
        shown.screenshot(path=picture, full_page=True, clip=clip)
        found: tuple[list[str], list[str]] = shown.evaluate(WRONG), shown.evaluate(SCROLLED)
    shown.close()
    return found


def rendered(page: Path) -> str:
    """Return a page as HTML, which names pictures from where the page is."""
    head = f'<meta charset="utf-8"><base href="{page.parent.as_uri()}/"><style>{STYLE}</style>'
    body = MarkdownIt().enable("table").render(page.read_text(encoding="utf-8"))
    return f"<!doctype html>{head}{body}"


if __name__ == "__main__":
    main()
