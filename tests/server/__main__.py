"""Run the server by hand: ``python -m tests.server --port 8000 --window 20000``."""

from __future__ import annotations

import argparse
import sys
import threading
from typing import get_args

from tests.server.demo import demo_reply
from tests.server.overflow import OverflowStyle
from tests.server.server import MessagesServer


def main() -> None:
    """Serve the demonstration model until Ctrl-C."""
    options = _arguments()
    server = MessagesServer(
        script=demo_reply,
        port=options.port,
        window=options.window,
        max_output=options.max_output,
        advertised_window=options.advertise,
        api_key=options.key,
        delay=options.delay,
        overflow=options.overflow,
    )
    with server:
        sys.stdout.write(
            f"Messages API on {server.url}, window {server.window} tokens.\n"
            f"Use it with ANTHROPIC_BASE_URL={server.url} "
            f"ANTHROPIC_API_KEY={options.key or 'any'}\n"
            "Ctrl-C stops it.\n"
        )
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.server", description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="0 takes any free port")
    parser.add_argument("--window", type=int, default=200_000, help="tokens a request may have")
    parser.add_argument("--max-output", type=int, default=8_192, help="tokens a reply may have")
    parser.add_argument("--advertise", type=int, help="the window that the models endpoint tells")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds between deltas")
    parser.add_argument("--key", help="the API key to require")
    parser.add_argument(
        "--overflow",
        choices=get_args(OverflowStyle),
        default="anthropic",
        help="the vendor in whose words a prompt is too long",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
