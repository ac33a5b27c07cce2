"""Run the tests that ask the whole service, and print how many cases and requests they were.

Usage: python benchmarks/service_tests.py [--page benchmarks/service_tests.md]

Cases are those that schemathesis makes of the OpenAPI document; requests are those of the tests of what every
endpoint must refuse and must not show. Fails where a test fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import report

COMMAND = "python benchmarks/service_tests.py"
TESTS = Path(__file__).resolve().parent.parent / "tests" / "pipelines" / "service" / "whole"


@click.command()
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(page: Path | None) -> None:
    """Run, print, and fill the page."""
    # Without -n: what a test prints comes from its own process.
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(TESTS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=TESTS.parents[3])
    if done.returncode:
        raise click.ClickException(f"{done.stdout[-5000:]}\nthe tests failed")
    text = figures(done.stdout)
    print(text)
    if page is not None:
        report.fill(page, COMMAND, text)


def figures(printed: str) -> str:
    """Return a sentence with the numbers that the tests printed."""
    cases = {role: int(number) for role, number in re.findall(r"^(\w+): (\d+) cases ", printed, re.MULTILINE)}
    requests = [int(n) for n in re.findall(r"^(\d+) requests to the whole service", printed, re.MULTILINE)]
    tests = re.findall(r"^(\d+) passed", printed, re.MULTILINE)
    if not cases or not requests or not tests:
        raise click.ClickException("the tests have not printed their numbers")
    by_role = ", ".join(f"{number:,} as {role}" for role, number in cases.items())
    return (
        f"{int(tests[-1]):,} tests; schemathesis: {sum(cases.values()):,} cases ({by_role}); "
        f"the others: {sum(requests):,} requests."
    )


if __name__ == "__main__":
    main()
