"""The end of the command line."""

from __future__ import annotations

import atexit
import os
import sys


def leave(code: object) -> None:
    """Exit at once: taking the SDK down object by object takes up to half a second.

    Everything is saved and closed by now. Only a plain exit code is treated so, and
    only where the output can still be written; all else is left to the interpreter.
    """
    if code is not None and not isinstance(code, int):
        sys.exit(str(code))
    # What libraries have asked to be called at exit, as the interpreter would.
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        # Closed by its reader, or by ourselves: the interpreter knows what to say.
        sys.exit(code)
    os._exit(code or 0)
