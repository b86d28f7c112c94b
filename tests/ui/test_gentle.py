from __future__ import annotations

import gc
import importlib
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.tasks import in_daemon
from agent.ui.gentle import KEY_SECONDS, PAUSE_SECONDS, GentleImports


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that was not imported yet."""
    name = f"made_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("import threading\nthread = threading.get_ident()\n")
    monkeypatch.syspath_prepend(tmp_path)
    return name


async def test_an_import_in_a_thread_waits_for_the_key(module: str) -> None:
    with GentleImports() as imports:
        started = time.monotonic()
        imports.typed()
        made = await in_daemon(lambda: importlib.import_module(module))
    assert made.thread != threading.get_ident()
    assert time.monotonic() - started >= KEY_SECONDS
    assert imports.waited >= 1


def test_an_import_of_the_main_thread_waits_for_nothing(module: str) -> None:
    with GentleImports() as imports:
        imports.typed()
        assert importlib.import_module(module).thread == threading.get_ident()
        assert imports.waited == 0


async def test_a_pause_begins_after_the_last_key() -> None:
    imports = GentleImports()
    started = time.monotonic()
    await imports.pause()
    imports.typed()
    await imports.pause()
    assert time.monotonic() - started >= PAUSE_SECONDS


def test_the_interpreter_is_afterwards_as_before() -> None:
    before = sys.getswitchinterval(), list(sys.meta_path)
    with GentleImports() as imports:
        assert not gc.isenabled()
        assert sys.meta_path[0] is imports
        assert sys.getswitchinterval() < before[0]
    gc.unfreeze()
    assert gc.isenabled()
    assert (sys.getswitchinterval(), list(sys.meta_path)) == before


async def test_what_fails_in_a_daemon_fails_here() -> None:
    with pytest.raises(ModuleNotFoundError):
        await in_daemon(lambda: importlib.import_module("no_such_module_at_all"))
