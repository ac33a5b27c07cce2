"""Privacy policies as a configuration names them: which home may stand in the place of which other one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    model_serializer,
    model_validator,
)

from pipelines.config.fields import Line, PositiveNumber, decimal_or_ratio, shown


class _Policy(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FullPolicy(_Policy):
    """Any home in the place of any other one: written "full"."""

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return {} if value == "full" else value

    @model_serializer
    def _text(self) -> str:
        return "full"


class PartitionPolicy(_Policy):
    """Homes in the same unit of a level."""

    partition: str


class DistancePolicy(_Policy):
    """Homes whose blocks lie within a distance."""

    distance_km: Annotated[PositiveNumber, BeforeValidator(lambda km: str(km) if type(km) is int else km)]

    @property
    def km(self) -> str:
        """The distance as exact text."""
        return decimal_or_ratio(self.distance_km)


def _categories(values: Any) -> Any:
    if not isinstance(values, (list, tuple)) or len({*map(str, values)}) < max(len(values), 2):
        raise ValueError(
            f"{shown(values)} are not categories; list all that a job may have, at least two different texts "
            "in quotes"
        )
    return values


Categories = Annotated[
    tuple[Line, ...],
    Field(strict=False),
    AfterValidator(lambda values: tuple(sorted(values))),
    BeforeValidator(_categories),
]


def _kind(value: Any) -> str | None:
    """Return the tag of a policy, as written or read; None where it has the form of none."""
    if isinstance(value, _Policy):
        return next(iter(type(value).model_fields), "full")
    match value:
        case "full":
            return "full"
        case {"partition": str()} | {"distance_km": _} if len(value) == 1:
            return str(*value)
    return None


Policy = Annotated[
    Annotated[FullPolicy, Tag("full")]
    | Annotated[PartitionPolicy, Tag("partition")]
    | Annotated[DistancePolicy, Tag("distance_km")],
    Discriminator(
        _kind,
        custom_error_type="policy",
        custom_error_message='is not a policy; write "full", or { partition = "cty" } with a level of the '
        "geography, or { distance_km = 16 } with a distance",
    ),
]


def _protected(value: Any) -> str | tuple[str, ...]:
    """Return what is protected: "home", "record", or home and attributes by name."""
    if value in ("home", "record"):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        home, *attributes = sorted({*value}, key=lambda name: (name != "home", name))
        if home == "home" and attributes and "record" not in attributes and len({*value}) == len(value):
            return (home, *attributes)
    raise ValueError(
        f'{shown(value)} cannot be protected; write "record", "home", or a list of home and attributes, each '
        'once: ["home", "earnings"]'
    )


Protected = Annotated[
    str | tuple[str, ...],
    PlainValidator(_protected),
    PlainSerializer(lambda value: value if isinstance(value, str) else [*value], when_used="json"),
]
"""What of a job record is protected."""
