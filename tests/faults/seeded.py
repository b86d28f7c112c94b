"""Faults seeded into the log's code, each of which the tests must catch.

A seed changes one place of a copy of the project. The place must be there exactly
once: whoever changes the code keeps the seeds up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

FILES = "agent/transcript/files.py"
LOG = "agent/transcript/log.py"
STORE = "agent/transcript/store.py"
READER = "agent/transcript/reader.py"
RECORDS = "agent/transcript/records.py"

IN_LOG = "tests/transcript/test_log.py"
IN_STORE = "tests/transcript/test_store.py"
IN_DAMAGE = "tests/faults/test_damage.py"
IN_INJECTED = "tests/faults/test_injected.py"


@dataclass(frozen=True)
class Seed:
    """A fault: in ``file``, ``old`` becomes ``new``; ``tests`` are to catch it."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    @property
    def traced(self) -> bool:
        """Whether the tests trace system calls."""
        return self.tests.startswith(IN_INJECTED)


SYNC_ORDER = f"{IN_INJECTED}::test_records_and_names_are_synced_before_they_count"
FULL_DISK = f"{IN_LOG}::test_a_failed_write_is_told_and_later_ones_count"

SEEDS = (
    Seed(
        "a record is not synced",
        LOG,
        "            os.fsync(self._descriptor)\n",
        "",
        SYNC_ORDER,
    ),
    Seed(
        "a new file is not synced",
        FILES,
        "        os.fsync(descriptor)\n        temporary.replace(path)\n",
        "        temporary.replace(path)\n",
        SYNC_ORDER,
    ),
    Seed(
        "the name of a new log is not synced",
        FILES,
        "        sync_folder(path.parent)\n    except OSError:\n",
        "        pass\n    except OSError:\n",
        SYNC_ORDER,
    ),
    Seed(
        "the name of a new folder is not synced",
        FILES,
        "        path.chmod(0o700)\n        sync_folder(path.parent)\n",
        "        path.chmod(0o700)\n",
        SYNC_ORDER,
    ),
    Seed(
        "a log that failed to sync is written again",
        LOG,
        "if not self._cut_off() or written:",
        "if not self._cut_off():",
        f"{IN_INJECTED}::test_neither_is_it_while_nothing_can_be_synced",
    ),
    Seed(
        "a log that cannot be cut off is written again",
        LOG,
        "if not self._cut_off() or written:",
        "if self._cut_off() and written:",
        f"{IN_INJECTED}::test_neither_is_half_a_record_gone_on_with",
    ),
    Seed(
        "a session does not go on elsewhere",
        STORE,
        "            self._go_on_elsewhere(log, record, failure)\n            return\n",
        "            raise\n",
        f"{IN_INJECTED}::test_a_log_that_cannot_be_synced_is_not_written_again",
    ),
    Seed(
        "a failed write is not cut off",
        LOG,
        "            os.ftruncate(self._descriptor, self._end)\n",
        "            pass\n",
        FULL_DISK,
    ),
    Seed(
        "a short write passes for a whole one",
        FILES,
        "    while view:\n        view = view[os.write(descriptor, view) :]\n",
        "    os.write(descriptor, view)\n",
        FULL_DISK,
    ),
    Seed(
        "an opened log is not written at its end",
        LOG,
        "os.O_RDWR | os.O_APPEND)",
        "os.O_RDWR)",
        FULL_DISK,
    ),
    Seed(
        "a new log is not written at its end",
        FILES,
        "os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)",
        "os.O_RDWR | os.O_CREAT | os.O_EXCL)",
        FULL_DISK,
    ),
    Seed(
        "a torn last line is not closed",
        LOG,
        "            if reader.torn:\n",
        "            if False:\n",
        f"{IN_DAMAGE}::test_truncated_at_every_byte",
    ),
    Seed(
        "the checksum is not looked at",
        RECORDS,
        """    if line[-_CRC_LENGTH:] != f'{_CRC_FIELD}{checksum:08x}"}}'.encode():\n""",
        "    if not checksum:\n",
        f"{IN_DAMAGE}::test_random_damage",
    ),
    Seed(
        "a number that comes again counts",
        READER,
        "        if entry.seq <= self.last:\n",
        "        if False:\n",
        f"{IN_DAMAGE}::test_random_damage",
    ),
    Seed(
        "a bad line ends reading",
        READER,
        "            self.skipped += 1\n            return None\n        if entry.seq",
        "            raise OSError from None\n        if entry.seq",
        f"{IN_DAMAGE}::test_random_damage",
    ),
    Seed(
        "records are taken in the order of their lines",
        READER,
        "        if all(before < after for before, after in pairwise(filter(None, numbers))):\n",
        "        if numbers or pairwise:\n",
        f"{IN_DAMAGE}::test_random_damage",
    ),
    Seed(
        "other separators end a line",
        READER,
        "        for whole in file:\n",
        '        for whole in file.read().replace("\\u2028".encode(), b"\\n").splitlines(True):\n',
        f"{IN_LOG}::test_append_and_read",
    ),
    Seed(
        "an opened log is not locked",
        LOG,
        "            _lock(descriptor, path)\n",
        "            pass\n",
        f"{IN_LOG}::test_one_writer_at_a_time",
    ),
    Seed(
        "a new log is not locked",
        FILES,
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "",
        f"{IN_LOG}::test_a_new_log_is_locked_at_once",
    ),
    Seed(
        "a log is made over another",
        FILES,
        "    if path.exists():\n",
        "    if False:\n",
        f"{IN_LOG}::test_a_log_is_never_made_over_another",
    ),
    Seed(
        "others may read the files",
        FILES,
        "os.fchmod(descriptor, 0o600)",
        "os.fchmod(descriptor, 0o644)",
        f"{IN_LOG}::test_files_are_private_under_any_umask",
    ),
    Seed(
        "others may enter the folder",
        FILES,
        "        path.chmod(0o700)\n",
        "        path.chmod(0o755)\n",
        f"{IN_LOG}::test_files_are_private_under_any_umask",
    ),
    Seed(
        "links are followed",
        FILES,
        "flags | os.O_NOFOLLOW | os.O_CLOEXEC",
        "flags | os.O_CLOEXEC",
        f"{IN_LOG}::test_links_are_refused",
    ),
    Seed(
        "a folder that is a link is taken",
        FILES,
        "    if path.is_symlink():\n",
        "    if False:\n",
        f"{IN_LOG}::test_links_are_refused",
    ),
    Seed(
        "a deleted log is written on",
        LOG,
        "            if not os.fstat(self._descriptor).st_nlink:\n",
        "            if False:\n",
        f"{IN_STORE}::test_a_deleted_log_is_made_again_under_its_name",
    ),
    Seed(
        "a fork writes later versions as its own",
        READER,
        '            yield line + b"\\n"\n        first',
        "            yield encode(entry)\n        first",
        f"{IN_STORE}::test_a_fork_takes_over_what_only_later_versions_know",
    ),
    Seed(
        "a fork names no parent",
        READER,
        "replace(entry.record, id=session_id, parent=parent)",
        "replace(entry.record, id=session_id)",
        f"{IN_STORE}::test_a_fork_takes_over_what_only_later_versions_know",
    ),
    Seed(
        "a readable file that missed something is written on",
        STORE,
        "            self._behind = True\n",
        "",
        f"{IN_STORE}::test_a_readable_file_that_a_full_disk_cut_short_catches_up",
    ),
)


def copy_project(folder: Path) -> None:
    """Copy what the tests need."""
    for name in ("agent", "tests"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "server")
        )
    shutil.copytree(ROOT / "tests" / "server", folder / "tests" / "server")
    shutil.copy(ROOT / "pyproject.toml", folder)


def plant(seed: Seed, folder: Path) -> None:
    """Put a fault into a copy of the project."""
    path = folder / seed.file
    text = path.read_text(encoding="utf-8")
    assert text.count(seed.old) == 1, f"{seed.name}: {seed.file} no longer holds {seed.old!r} once"
    path.write_text(text.replace(seed.old, seed.new), encoding="utf-8")


def run_tests(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy of the project, in their short form."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:xdist", *tests],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "TEST_PROFILE"},
        capture_output=True,
        text=True,
        check=False,
    )
