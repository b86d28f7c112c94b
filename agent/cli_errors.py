"""How a command fails: one line on stderr, an exit code, and with ``--debug`` a traceback.

The traceback goes to a file that only the user can read, and no key is ever in it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer

from agent.errors import AgentError, ConfigError, SessionError

USAGE_ERROR = 2
INTERRUPTED = 130

_SECRET_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")

logger = logging.getLogger("agent")
_secrets: set[str] = set()


@contextmanager
def errors_as_one_line() -> Iterator[None]:
    """Turn failures into one line on stderr and an exit code."""
    try:
        yield
    except (typer.Exit, typer.TyperException, BrokenPipeError):
        # The last one: whoever read the output has left, which ends the program quietly.
        raise
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error
    except AgentError as error:
        logger.debug("the command failed", exc_info=error)
        typer.echo(f"agent: {error}", err=True)
        usage = isinstance(error, ConfigError | SessionError)
        raise typer.Exit(USAGE_ERROR if usage else 1) from error
    except Exception as error:
        from agent.ui.describe import error as described

        logger.debug("the command failed", exc_info=error)
        typer.echo(f"agent: {_without_secrets(described(error))}", err=True)
        raise typer.Exit(1) from error


def usage_error(error: typer.TyperException) -> int:
    """Print what is wrong with a command line, and where help is; the exit code."""
    if text := " ".join(error.format_message().split()):
        # The command that was meant, as far as it was understood.
        path = getattr(getattr(error, "ctx", None), "command_path", "agent")
        line = f"agent: {text.rstrip('.')}; {path} --help shows what there is"
        typer.echo(_without_secrets(line), err=True)
    return error.exit_code


def hide(*secrets: str | None) -> None:
    """Keep these out of everything that is written about failures."""
    _secrets.update(filter(None, secrets))


def _without_secrets(text: str) -> str:
    for secret in (*_secrets, *filter(None, map(os.environ.get, _SECRET_VARIABLES))):
        text = text.replace(secret, "***")
    return text


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _without_secrets(super().format(record))


def _start_debug_log(wanted: bool) -> None:
    """Write this program's own debug messages, tracebacks included, to a new file."""
    if not wanted or logger.handlers:
        return
    from agent.folders import state_folder
    from agent.transcript.files import open_private, private_folder

    path = state_folder() / "debug" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        private_folder(path.parent)
        os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except (OSError, AgentError) as error:
        typer.echo(f"agent: cannot write tracebacks to {path}: {error}", err=True)
        raise typer.Exit(USAGE_ERROR) from error
    handler.setFormatter(_Formatter("%(asctime)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    typer.echo(f"agent: tracebacks go to {path}", err=True)


DebugOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--debug", callback=_start_debug_log, help="Write tracebacks of failures to a file."
    ),
]
