"""Templates."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from pipelines.storage.templates import template_environment


@pytest.mark.quick
@pytest.mark.parametrize("test", ["is none", "is not none", "== 1", "and true"])
def test_a_name_that_does_not_exist_is_an_error(tmp_path: Path, test: str) -> None:
    """Also where it is only asked whether it is there: a field that moved would be absent for ever."""
    environment = template_environment(tmp_path)
    template = environment.from_string("{% if value.moved " + test + " %}a{% else %}b{% endif %}")
    with pytest.raises(jinja2.UndefinedError, match="moved"):
        template.render(value=tmp_path)
