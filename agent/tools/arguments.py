"""A call's arguments: the schema a model is given, and the check against it."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import TypeAlias

from agent.errors import ToolError
from agent.messages import scrub

Property: TypeAlias = Mapping[str, object]

_KINDS: Mapping[str, tuple[str, type | UnionType]] = {
    "string": ("a string", str),
    "integer": ("a whole number", int),
    "number": ("a number", int | float),
    "boolean": ("true or false", bool),
}
"""What is expected, in words and as Python's types."""


def object_schema(*required: str, **properties: Property) -> dict[str, object]:
    """The JSON schema of a tool's input.

    ``properties`` map a name to its schema; of JSON schema, :func:`checked`
    knows ``type`` (string, integer, number, boolean) and ``minimum``.
    """
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def checked(schema: Mapping[str, object], arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments, once they fit the schema.

    An optional argument that is ``null`` counts as left out, and a whole float
    such as ``5.0`` as the integer it stands for: models send both.

    Raises:
        ToolError: an argument is missing, unknown or of the wrong type; the
            message names it and says what is expected.
    """
    properties = _mapping(schema.get("properties"))
    required = schema.get("required")
    required_names = required if isinstance(required, list) else []
    for name in arguments:
        if name not in properties:
            raise ToolError(
                f"Unknown argument {one_line(name)!r}; expected: {', '.join(properties)}."
            )
    result: dict[str, object] = {}
    for name, rule in properties.items():
        value = arguments.get(name)
        if value is not None:
            result[name] = _checked_value(name, value, _mapping(rule))
        elif name in required_names:
            expected, _ = _KINDS[str(_mapping(rule).get("type"))]
            raise ToolError(f"Missing argument {name!r}: {expected} is expected.")
    return result


def _checked_value(name: str, value: object, rule: Mapping[str, object]) -> object:
    """One argument's value, once it fits its rule."""
    kind = str(rule.get("type"))
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    expected, types = _KINDS[kind]
    if not isinstance(value, types) or isinstance(value, bool) != (kind == "boolean"):
        given = one_line(repr(value), 60)
        raise ToolError(f"Wrong argument {name!r}: {expected} is expected, not {given}.")
    minimum = rule.get("minimum")
    if isinstance(minimum, int) and isinstance(value, int | float) and not value >= minimum:
        raise ToolError(f"Wrong argument {name!r}: it must be at least {minimum}, not {value}.")
    return value


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def text(arguments: Mapping[str, object], name: str, default: str | None = None) -> str:
    """A string argument, without lone surrogates.

    Raises:
        ToolError: it is missing and has no default, or it is no string.
    """
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise ToolError(f"Argument {name!r}: a string is expected.")
    return scrub(value)


def integer(arguments: Mapping[str, object], name: str, default: int) -> int:
    """An integer argument of at least 1.

    Raises:
        ToolError: it is no integer or below 1.
    """
    value = arguments.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ToolError(f"Argument {name!r}: a whole number of at least 1 is expected.")
    return value


def one_line(value: object, width: int = 100) -> str:
    """A value as one line of at most ``width`` characters, for a screen or a message."""
    # A longer text cannot change what is shown, and may be megabytes.
    line = " ".join(scrub(str(value)[: 4 * width]).split())
    return line if len(line) <= width else line[: width - 1] + "…"
