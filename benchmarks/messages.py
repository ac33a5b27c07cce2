"""List the messages of errors that users meet, from the source, and which of them are long or name no fix.

Usage: python benchmarks/messages.py [--long 45] [--all]

Messages are those of errors that end in one line on the command line or in an answer of the service, and of
the rules of a configuration. What stands in braces is filled in. A message names its fix after "Fix:", in an
argument `fix`, after a semicolon or in a second sentence; a rule of a configuration ends in what to write.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
ROOMS = ("geo_data", "synth", "pipelines")
KINDS = {
    *("InputError", "ConfigError", "LedgerError", "SigningError", "PublicReleaseError", "PublishError"),
    *("ExportError", "ServiceError", "refuse_any", "conflict", "invalid", "UsageError", "ClickException"),
}

_MARKS = ("Fix: ", "; ", ". ")


@dataclass(frozen=True)
class Message:
    """A message, and where it is."""

    place: str
    kind: str
    text: str
    fixed: bool

    @property
    def words(self) -> int:
        """How many words it has."""
        return len(self.text.split())


@click.command()
@click.option("--long", "most", default=45, show_default=True, help="Words above which a message is long.")
@click.option("--all", "every", is_flag=True, help="List all of them, not only those to be looked at.")
def main(most: int, every: bool) -> None:
    """Print a line for each message, and how many there are."""
    messages = [
        message for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) for message in of_file(path)
    ]
    for message in messages:
        why = "long" if message.words > most else "" if message.fixed else "no fix"
        if every or why:
            click.echo(f"{message.place}  {message.kind}  {why or 'ok'}  {message.text}")
    long = sum(message.words > most for message in messages)
    without = sum(not message.fixed for message in messages)
    click.echo(
        f"{len(messages):,} messages; {long:,} of more than {most} words; {without:,} that name no fix"
    )


def of_file(path: Path) -> Iterator[Message]:
    """Yield the messages of a module."""
    if "node_modules" in path.parts:
        return
    rules = path.name == "rules.py"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and name_of(node.func) in KINDS:
            texts = [text for argument in node.args if (text := shown(argument))]
            fix = [shown(keyword.value) for keyword in node.keywords if keyword.arg == "fix"]
            text = " ".join([*texts, *(f"Fix: {words}" for words in fix)])
            if text:
                fixed = bool(fix) or any(mark in text for mark in _MARKS)
                yield Message(where, name_of(node.func), text, fixed)
        elif rules and isinstance(node, ast.Yield) and node.value is not None and (text := shown(node.value)):
            yield Message(where, "rule", text, fixed=True)


def name_of(function: ast.expr) -> str:
    """Return the last part of the name of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def shown(node: ast.expr) -> str:
    """Return a text as it is written, with what is filled in in braces; nothing of what is no text."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(shown(part) or f"{{{ast.unparse(part.value)}}}"  # type: ignore[attr-defined]
                           for part in parts)  # fmt: skip
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return shown(left) + shown(right)
        case ast.IfExp(body=body, orelse=other):
            return f"{shown(body)} / {shown(other)}".strip(" /")
    return ""


if __name__ == "__main__":
    main()
