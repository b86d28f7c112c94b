from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("rich.markdown", "rich.syntax", "markdown_it", "pygments", "anthropic", "tiktoken")


def imported_by(module: str) -> set[str]:
    """The modules that are loaded after an import in a fresh interpreter."""
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("agent.ui.repl", HEAVY),
        ("agent.ui.oneshot", (*HEAVY, "prompt_toolkit")),
        ("agent.ui.port", (*HEAVY, "prompt_toolkit", "rich")),
    ],
)
def test_heavy_modules_are_imported_when_they_are_needed(
    module: str, heavy: tuple[str, ...]
) -> None:
    assert not imported_by(module) & set(heavy)
