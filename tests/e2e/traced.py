"""``python -m tests.e2e.traced LOG PROGRAM ARGUMENT...``: runs a program under ``strace``."""

from __future__ import annotations

import shutil
import subprocess
import sys

STRACE = shutil.which("strace")

if __name__ == "__main__" and STRACE:
    log, *program = sys.argv[1:]
    calls = "trace=execve,connect,open,openat"
    command = [STRACE, "-f", "-qq", "-s", "300", "-e", calls, "-o", log, *program]
    sys.exit(subprocess.run(command, check=False).returncode)
