"""Every lemma of docs/privacy.md names the functions that compute it, and these functions name the lemma."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import synth

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
PARAGRAPHS = re.split(r"\n(?=\*\*Lemma \d+ )", TEXT)[1:]
LEMMAS = {int(re.match(r"\*\*Lemma (\d+) ", p)[1]): p for p in PARAGRAPHS}  # type: ignore[index]


def functions_of(paragraph: str) -> set[str]:
    """Full names after "Computed by", up to the proof."""
    statement = paragraph.split("*Proof.*")[0]
    assert "Computed by" in statement
    return set(re.findall(r"`(synth\.[\w.]+)`", statement.split("Computed by", 1)[1]))


def documented() -> dict[str, str]:
    """Docstrings of all functions and methods of `synth`, by full name."""
    result = {}
    for module_info in pkgutil.walk_packages(synth.__path__, "synth."):
        module = importlib.import_module(module_info.name)
        for name, member in vars(module).items():
            if getattr(member, "__module__", None) != module.__name__:
                continue
            result[f"{module.__name__}.{name}"] = inspect.getdoc(member) or ""
            if inspect.isclass(member):
                for inner, method in vars(member).items():
                    if inspect.isfunction(method) or isinstance(method, (classmethod, property)):
                        result[f"{module.__name__}.{name}.{inner}"] = inspect.getdoc(method) or ""
    return result


def test_lemmas_are_numbered_without_gaps_and_end_in_a_proof() -> None:
    assert list(LEMMAS) == list(range(1, len(LEMMAS) + 1))
    assert len(LEMMAS) >= 18
    for paragraph in PARAGRAPHS:
        assert re.search(r"\*Proof\.\*.+∎", paragraph, re.S)


@pytest.mark.parametrize("number", LEMMAS)
def test_every_lemma_has_functions_that_name_it(number: int) -> None:
    names = functions_of(LEMMAS[number])
    assert names
    for name in names:
        text = inspect.getdoc(pkgutil.resolve_name(name)) or ""
        assert re.search(rf"Lemma {number}\b", text), f"{name} does not name Lemma {number}"


def test_every_function_that_names_a_lemma_is_named_by_it() -> None:
    named = {
        (name, int(number))
        for name, text in documented().items()
        for number in re.findall(r"Lemma (\d+)", text)
    }
    assert named
    stated = {(name, number) for number, paragraph in LEMMAS.items() for name in functions_of(paragraph)}
    assert named == stated


def test_the_table_of_machine_read_proofs_names_what_there_is() -> None:
    """Of every statement but three that all use: lemma, file, function of the lemma, and test."""
    proofs = ROOT / "docs" / "proofs"
    page, statements = ((proofs / name).read_text(encoding="utf-8") for name in ("README.md", "Statements.v"))
    row = r"^\| (\d+) \| `(\w+)` \| .* \| `(.+?)` \| `(.+?)` \| `(.+?)::(\w+)` \|$"
    rows = re.findall(row, page, re.MULTILINE)
    for number, statement, source, function, path, test in rows:
        text = (proofs / source).read_text(encoding="utf-8")
        assert re.search(rf"^Theorem {statement.removesuffix('_rat')}\b", text, re.MULTILINE), statement
        assert function in functions_of(LEMMAS[int(number)]), statement
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), test
    for_all = ["it_is_a_mechanism", "the_likelihood", "pdp_dp_rat"]
    stated = re.findall(r"^(?:Theorem|Definition) (\w+)", statements, re.MULTILINE)
    assert sorted(stated) == sorted([one[1] for one in rows] + for_all)
    assert all(f"`{name}`" in page for name in for_all)
