"""Settings of all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# How long an example takes says more about what else the machine does.
settings.register_profile("project", deadline=None, stateful_step_count=20)
settings.register_profile("faults", deadline=None, stateful_step_count=30, max_examples=2_000)
settings.load_profile(os.environ.get("TEST_PROFILE", "project"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have measured (``record_property``)."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{report.nodeid.split('::')[-1]}: {name}: {value}")
