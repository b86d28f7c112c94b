"""The tests of the log catch faults that are put into it. Two here; ``make faults`` all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.injection import why_not
from tests.faults.seeded import SEEDS, Seed, copy_project, plant, run_tests

FAILED = 1
"""What pytest returns when tests ran and some failed."""

WHOLE = os.environ.get("TEST_PROFILE") == "faults"
UNABLE = why_not()
QUICK = ("a torn last line is not closed", "an opened log is not locked")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    copy_project(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "seed", [seed for seed in SEEDS if WHOLE or seed.name in QUICK], ids=lambda seed: seed.name
)
def test_a_seeded_fault_is_caught(copy: Path, seed: Seed) -> None:
    if seed.traced and UNABLE:
        pytest.skip(UNABLE)
    plant(seed, copy)
    done = run_tests(copy, [seed.tests])
    assert done.returncode == FAILED, f"it survived {seed.tests}:\n{done.stdout[-2_000:]}"


def test_every_seed_has_its_place(copy: Path) -> None:
    for seed in SEEDS:
        before = (copy / seed.file).read_text(encoding="utf-8")
        plant(seed, copy)
        (copy / seed.file).write_text(before, encoding="utf-8")


@pytest.mark.skipif(not WHOLE, reason="the tests themselves run anyway; the copy under make faults")
def test_without_a_fault_the_same_tests_pass(copy: Path) -> None:
    done = run_tests(copy, sorted({seed.tests for seed in SEEDS}))
    assert done.returncode == 0, done.stdout[-2_000:]
