from __future__ import annotations

import pytest

from agent.errors import ToolError
from agent.tools.arguments import checked, integer, object_schema, one_line, text

SCHEMA = object_schema(
    "path",
    path={"type": "string"},
    offset={"type": "integer", "minimum": 1},
    seconds={"type": "number"},
    deep={"type": "boolean"},
)


def test_fitting_arguments_come_through() -> None:
    given = {"path": "a", "offset": 3, "seconds": 1.5, "deep": False}
    assert checked(SCHEMA, given) == given


def test_null_counts_as_left_out_and_a_whole_float_as_an_integer() -> None:
    assert checked(SCHEMA, {"path": "a", "offset": 5.0, "deep": None}) == {"path": "a", "offset": 5}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "Missing argument 'path': a string"),
        ({"path": None}, "Missing argument 'path'"),
        ({"path": "a", "colour": 1}, "Unknown argument 'colour'; expected: path, offset"),
        ({"path": 7}, "Wrong argument 'path': a string is expected, not 7"),
        ({"path": "a", "offset": "3"}, "Wrong argument 'offset': a whole number is expected"),
        ({"path": "a", "offset": 1.5}, "Wrong argument 'offset'"),
        ({"path": "a", "offset": True}, "Wrong argument 'offset'"),
        ({"path": "a", "offset": 0}, "'offset': it must be at least 1, not 0"),
        ({"path": "a", "seconds": "x"}, "Wrong argument 'seconds': a number"),
        ({"path": "a", "deep": 1}, "Wrong argument 'deep': true or false"),
    ],
)
def test_what_does_not_fit_is_named_on_one_line(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ToolError) as caught:
        checked(SCHEMA, arguments)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_value_is_not_repeated_at_length() -> None:
    with pytest.raises(ToolError) as caught:
        checked(SCHEMA, {"path": ["x" * 100_000]})
    assert len(str(caught.value)) < 200


def test_getters_check_what_an_unchecked_call_gives_them() -> None:
    assert text({"path": "a\ud800b"}, "path") == "a\ufffdb"
    assert text({}, "path", ".") == "."
    assert integer({}, "offset", 1) == 1
    with pytest.raises(ToolError):
        text({}, "path")
    for wrong in (0, True, "1"):
        with pytest.raises(ToolError):
            integer({"offset": wrong}, "offset", 1)


def test_one_line_is_one_line_of_bounded_width() -> None:
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("x" * 500, 10) == "x" * 9 + "…"
    assert one_line("\ud800") == "\ufffd"
