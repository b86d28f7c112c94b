"""The factors that a user keeps: within bounds, private, and never in the way."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.calibration import MOST_MODELS, VERSION, CalibrationStore
from agent.context.tokens import FACTOR_BOUNDS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "calibration.json"


def test_a_factor_is_kept_per_model(path: Path) -> None:
    store = CalibrationStore(path)
    assert store.load("claude") is None
    assert store.save("claude", 1.17)
    assert store.save("qwen", 0.93)
    assert CalibrationStore(path).load("claude") == 1.17
    assert CalibrationStore(path).load("qwen") == 0.93
    assert store.load("another") is None


def test_the_file_and_its_folder_are_private(path: Path) -> None:
    before = os.umask(0)
    try:
        CalibrationStore(path).save("claude", 1.2)
        CalibrationStore(path).save("claude", 1.3)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_values_are_bounded(path: Path) -> None:
    store = CalibrationStore(path)
    low, high = FACTOR_BOUNDS
    store.save("tiny", 1e-9)
    store.save("huge", 1e300)
    assert (store.load("tiny"), store.load("huge")) == (low, high)
    assert not store.save("none", float("nan"))
    assert not store.save("none", float("inf"))
    assert not store.save("", 1.2)
    assert not store.save("x" * 1_000, 1.2)
    assert store.load("none") is None


def kept(factors: object, version: object = VERSION) -> bytes:
    return json.dumps({"version": version, "factors": factors}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b"[" * 100_000,
        kept({"claude": "1.2"}),
        kept({"claude": None}),
        kept({"claude": -1}),
        kept({"claude": float("nan")}),
        kept({"claude": float("inf")}),
        kept(["claude"]),
        kept({"claude": 1.2}, version=VERSION + 1),
        kept({"claude": 1.2}, version=None),
        kept({"claude": 1.2}) + b" " * 1_000_000,
    ],
)
def test_a_damaged_file_knows_nothing_and_is_replaced(path: Path, data: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(data)
    store = CalibrationStore(path)
    assert store.load("claude") is None
    assert store.save("claude", 1.25)
    assert store.load("claude") == 1.25


def test_an_absurd_number_is_brought_within_bounds(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(kept({"claude": 10**400}))
    assert CalibrationStore(path).load("claude") == FACTOR_BOUNDS[1]


@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("state") / "calibration.json"
    path.write_bytes(data)
    assert CalibrationStore(path).load("claude") is None


@given(st.text(st.characters(codec=None), min_size=1, max_size=40))
def test_any_name_can_be_kept(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.mktemp("state") / "calibration.json"
    CalibrationStore(path).save(name, 1.4)
    assert CalibrationStore(path).load(name) == 1.4


def test_the_models_saved_last_are_kept(path: Path) -> None:
    store = CalibrationStore(path)
    for number in range(MOST_MODELS + 5):
        store.save(f"model-{number}", 1.1)
    assert store.load("model-4") is None
    assert store.load("model-5") == 1.1
    assert len(json.loads(path.read_bytes())["factors"]) == MOST_MODELS


def test_the_last_writer_wins_and_others_models_stay(path: Path) -> None:
    first, second = CalibrationStore(path), CalibrationStore(path)
    first.save("claude", 1.1)
    second.save("claude", 1.3)
    second.save("qwen", 0.9)
    assert (first.load("claude"), first.load("qwen")) == (1.3, 0.9)


def test_a_change_too_small_to_matter_is_not_written(path: Path) -> None:
    store = CalibrationStore(path)
    store.save("claude", 1.2)
    before = path.stat()
    assert store.save("claude", 1.202)
    assert path.stat().st_ino == before.st_ino
    assert store.save("claude", 1.22)
    assert path.stat().st_ino != before.st_ino


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file" / "calibration.json", tmp_path):
        store = CalibrationStore(path)
        assert not store.save("claude", 1.2)
        assert store.load("claude") is None


def test_a_link_is_replaced_and_not_followed(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    target = tmp_path / "precious"
    target.write_text("precious")
    path.symlink_to(target)
    assert CalibrationStore(path).save("claude", 1.2)
    assert target.read_text() == "precious"
    assert not path.is_symlink()
