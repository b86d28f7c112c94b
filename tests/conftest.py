"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# How long an example takes says more about what else the machine does.
settings.register_profile("project", deadline=None, stateful_step_count=20)
settings.register_profile("faults", deadline=None, stateful_step_count=30, max_examples=2_000)
settings.load_profile(os.environ.get("TEST_PROFILE", "project"))
