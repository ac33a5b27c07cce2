"""List the messages of errors that users meet, from the source, and which of them are long or name no fix.

Usage: python benchmarks/messages.py [--long 45] [--all]

Messages are those of errors that end in one line on the command line or in an answer of the service, and of
the rules of a configuration. What stands in braces is filled in; a name stands for the last text that it was
given above, and of two alternatives the longer is shown. A message names its fix after "Fix:", in an argument
`fix`, after a semicolon or in a second sentence; a rule of a configuration ends in what to write. Errors of
other kinds, such as a ValueError of `synth` for arrays that do not fit, are not listed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
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
    tree = ast.parse(path.read_text(encoding="utf-8"))
    scope, given = scopes_of(tree), sorted(texts_of_names(tree))
    for node in ast.walk(tree):
        here = getattr(node, "lineno", 0)
        scopes = {scope.get(here, 0), 0}
        names = {name: text for line, name, text in given if line < here and scope.get(line, 0) in scopes}
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and name_of(node.func) in KINDS:
            texts = [text for argument in node.args if (text := shown(argument, names))]
            fix = [shown(keyword.value, names) for keyword in node.keywords if keyword.arg == "fix"]
            if name_of(node.func) == "conflict" and len(node.args) == 3:
                fix.append(texts.pop() if shown(node.args[2], names) else "")
            text = " ".join([*texts, *(f"Fix: {words}" for words in fix)])
            if text:
                fixed = bool(fix) or any(mark in text for mark in _MARKS)
                yield Message(where, name_of(node.func), text, fixed)
        elif (
            rules
            and isinstance(node, ast.Yield)
            and node.value is not None
            and (text := shown(node.value, names))
        ):
            yield Message(where, "rule", text, fixed=True)


def name_of(function: ast.expr) -> str:
    """Return the last part of the name of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def scopes_of(tree: ast.AST) -> dict[int, int]:
    """Return, by line, the line at which the innermost function around it begins."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    functions.sort(key=lambda function: function.lineno)  # an inner one comes after the one around it
    return {
        line: function.lineno
        for function in functions
        for line in range(function.lineno, (function.end_lineno or 0) + 1)
    }


def texts_of_names(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and text of each name that is given a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=False))
            for name, given in pairs:
                if isinstance(name, ast.Name) and (text := shown(given, {})):
                    yield node.lineno, name.id, text


def shown(node: ast.expr, names: Mapping[str, str]) -> str:
    """Return a text as it is written, with what is filled in in braces; nothing of what is no text."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Name(id=name):
            return names.get(name, "")
        case ast.JoinedStr(values=parts):
            return "".join(shown(part, {}) or filled_in(part, names) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return shown(left, names) + shown(right, names)
        case ast.IfExp(body=body, orelse=other):
            return max(shown(body, names), shown(other, names), key=len)
    return ""


def filled_in(part: ast.expr, names: Mapping[str, str]) -> str:
    """Return what is filled in into a text: the text of a name, or the expression in braces."""
    assert isinstance(part, ast.FormattedValue)
    return shown(part.value, names) or f"{{{ast.unparse(part.value)}}}"


if __name__ == "__main__":
    main()
