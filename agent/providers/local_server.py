"""The process that serves a local model: run as a program by :mod:`.local`, never imported.

::

    python -P local_server.py WEIGHTS WINDOW NAME

The first line of its input is the key that every request must carry. It prints the
server's address on one line, and ends as soon as its input does: so it outlives neither
an orderly end of its parent nor a ``kill -9``.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading


def main() -> None:
    """Serve until the input ends."""
    weights, window, name = sys.argv[1:]
    # An extra, which is not installed wherever types are checked.
    xllamacpp = importlib.import_module("xllamacpp")
    key = sys.stdin.readline().strip()
    # The parent may be gone while a large model is still being loaded.
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()
    # What the server's own code prints must not be taken for the address.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.model_alias = {name}
    params.n_ctx = int(window)
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.cache_ram_mib = 512
    # Both only delay the first answer.
    params.warmup = False
    params.fit_params = False
    server = xllamacpp.Server(params)
    print(server.listening_address, file=answer, flush=True)
    threading.Event().wait()


def _leave_with_the_parent() -> None:
    while sys.stdin.readline():
        pass
    # An orderly end would wait for a request that is still being answered.
    os._exit(0)


if __name__ == "__main__":
    main()
