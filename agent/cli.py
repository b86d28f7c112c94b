"""The command line: the one place that builds the parts and joins them.

Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from agent import __version__
from agent.cli_errors import INTERRUPTED, DebugOption, errors_as_one_line, hide, usage_error
from agent.cli_info import app as info
from agent.cli_past import TranscriptsOption, folders
from agent.cli_past import app as past
from agent.ending import leave
from agent.errors import ConfigError

if TYPE_CHECKING:
    from agent.config import Settings
    from agent.session import Session

NEWEST, CHOOSE, TRIAL = "@newest", "@choose", "@trial"
"""What ``--continue``, and ``--resume`` and ``--local`` without a value, stand for."""

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]

app = typer.Typer(
    name="agent",
    help="A terminal chat agent that keeps long conversations within the window "
    "and every word of them on disk.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line and exit with its code."""
    # Imports make many objects and no garbage: looking for some takes a fifth of their time.
    gc.set_threshold(100_000)
    sys.argv[1:] = normalised(sys.argv[1:])
    try:
        code = app(prog_name="agent", standalone_mode=False)
    except typer.TyperException as error:
        code = usage_error(error)
    except SystemExit as end:
        code = end.code
    leave(code)


def normalised(arguments: list[str]) -> list[str]:
    """The arguments with ``--resume @choose`` and ``--local @trial`` where there is no value.

    The parser knows no option with an optional value.
    """
    result: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":
            return result + arguments[position:]
        result.append(argument)
        following = arguments[position + 1 : position + 2]
        if argument == "--resume" and (not following or following[0].startswith("-")):
            result.append(CHOOSE)
        if argument == "--local" and not "".join(following).lower().endswith(".gguf"):
            result.append(TRIAL)
    return result


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"agent {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    _debug: DebugOption = False,
) -> None:
    """See the help text of ``app``."""


@app.command()
def chat(
    prompt: Annotated[
        str | None, typer.Argument(help="Sent first; the conversation then goes on.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's id.")] = None,
    base_url: Annotated[
        str | None, typer.Option(help="A server that speaks the Messages API.")
    ] = None,
    local: Annotated[
        str | None,
        typer.Option(
            help="A model on this machine; without a file, a trial model.", metavar="[FILE.gguf]"
        ),
    ] = None,
    context_window: Annotated[
        int | None, typer.Option(help="The model's window, where its server does not tell it.")
    ] = None,
    max_input_tokens: Annotated[
        int | None,
        typer.Option(
            help="Input tokens before the conversation is folded. Default: 70% of the "
            "model's window, at most 200,000."
        ),
    ] = None,
    keep_recent_turns: Annotated[
        int | None, typer.Option(help="Turns kept word for word when folding. Default: 5.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            help="Go on with a session: an id or its beginning; none: choose one.",
            metavar="[ID]",
        ),
    ] = None,
    fork: Annotated[
        bool, typer.Option("--fork", help="With --resume: go on in a new session that holds it.")
    ] = False,
    continue_: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the newest session here.")
    ] = False,
    print_: Annotated[
        bool,
        typer.Option(
            "--print", "-p", help="Print one answer and exit. Piped input is added to the prompt."
        ),
    ] = False,
    output_format: Annotated[OutputFormat, typer.Option(help="With -p.")] = "text",
    system_file: Annotated[
        Path | None, typer.Option(help="A file with another system prompt.")
    ] = None,
    no_system: Annotated[bool, typer.Option("--no-system", help="No system prompt.")] = False,
    approval: Annotated[
        str | None, typer.Option(help="ask, read-only, auto-edit or yolo. Default: ask.")
    ] = None,
    sandbox: Annotated[
        bool | None, typer.Option(help="Run commands in a sandbox. Default: where one works.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="A command that needs no question; repeatable.")
    ] = None,
    max_requests: Annotated[
        int | None, typer.Option(help="Requests in one turn at most. Default: 100.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Text only: nothing moves.")] = False,
    config: Annotated[Path | None, typer.Option(help="Another configuration file.")] = None,
    transcripts: Annotated[
        Path | None, typer.Option(help="The transcripts folder. Default: .transcripts")
    ] = None,
    _debug: DebugOption = False,
) -> None:
    """Chat with a model that can use tools."""
    flags: dict[str, object] = {
        "model": model,
        "base_url": base_url,
        "context_window": context_window,
        "max_input_tokens": max_input_tokens,
        "keep_recent_turns": keep_recent_turns,
        "system_file": system_file,
        "no_system": no_system or None,
        "approval": approval,
        "sandbox": sandbox,
        "max_requests": max_requests,
        "transcripts": transcripts,
        "plain": plain or None,
    }
    import asyncio

    with errors_as_one_line():
        settings = replace(_settings(flags, config, local), allow=tuple(allow or ()))
        wanted = resume if resume is not None else NEWEST if continue_ else None
        if print_:
            code = asyncio.run(_print_once(settings, wanted, fork, prompt or "", output_format))
        else:
            code = asyncio.run(_open_repl(settings, wanted, fork, prompt))
    raise typer.Exit(code)


def _settings(flags: dict[str, object], config: Path | None, local: str | None) -> Settings:
    from agent.config import load_settings, require_endpoint

    given = {name: value for name, value in flags.items() if value is not None}
    settings = load_settings(given, os.environ, config)
    hide(*settings.secrets)
    if local is None:
        require_endpoint(settings)
        return settings
    from agent.providers.local import with_local_model

    return with_local_model(settings, None if local == TRIAL else Path(local))


async def _make_session(
    settings: Settings, wanted: str | None, *, fork: bool, patient: bool
) -> tuple[Session, tuple[str, ...]]:
    """The session that was asked for, and what to tell of its model and its past."""
    from agent.context.calibration import CalibrationStore
    from agent.folders import state_folder
    from agent.providers.choice import make_provider
    from agent.session import Session
    from agent.tools.registry import ToolBox, default_tools

    provider, notices = make_provider(settings)
    session = Session(
        settings,
        provider,
        ToolBox(default_tools()),
        Path.cwd(),
        patient=patient,
        calibration=CalibrationStore(state_folder() / "calibration.json"),
        folders=folders(),
    )
    if wanted is not None:
        newest = wanted in (NEWEST, CHOOSE)
        notices += session.resume(None if newest else wanted, fork=fork)
        if settings.sources["model"] != "default" and settings.model != session.model:
            await session.set_model(settings.model)
    return session, notices


async def _print_once(
    settings: Settings, wanted: str | None, fork: bool, prompt: str, output_format: OutputFormat
) -> int:
    import asyncio

    from agent.ui.oneshot import run_once
    from agent.ui.piped import joined, read_piped

    session, warnings = await _make_session(settings, wanted, fork=fork, patient=False)
    for warning in warnings:
        typer.echo(f"agent: {warning}", err=True)
    loading = asyncio.create_task(session.warm_up())
    piped, idle = await asyncio.to_thread(read_piped, sys.stdin, required=not prompt.strip())
    if idle:
        typer.echo("agent: nothing came in on stdin; going on without it", err=True)
    text = joined(prompt, piped)
    if not text:
        raise ConfigError("there is no prompt: give one after -p, or pipe it in")
    try:
        return await run_once(session, text, output_format, sys.stdout, sys.stderr)
    finally:
        loading.cancel()
        await asyncio.wait([loading])
        await session.close()


async def _open_repl(settings: Settings, wanted: str | None, fork: bool, prompt: str | None) -> int:
    from agent.transcript.sessions import list_sessions
    from agent.ui.picker import pick_session
    from agent.ui.repl import run_repl

    if wanted == CHOOSE and (entries := list_sessions(settings.transcripts)):
        wanted = await pick_session(entries)
        if wanted is None:
            typer.echo("agent: no session was chosen", err=True)
            return INTERRUPTED
    session, warnings = await _make_session(settings, wanted, fork=fork, patient=True)
    try:
        return await run_repl(
            session,
            prompt,
            notices=warnings,
            vi_mode=settings.vi_mode,
            bell=settings.bell,
            plain=settings.plain,
            show_thinking=settings.show_thinking,
        )
    finally:
        await session.close()


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(help="Session files of Claude Code or pi.")],
    transcripts: TranscriptsOption = None,
) -> None:
    """Bring conversations of Claude Code or pi along: each becomes a session that resumes."""
    import asyncio

    from agent.config import load_settings

    with errors_as_one_line():
        code = asyncio.run(_import(load_settings({"transcripts": transcripts}, os.environ), files))
    raise typer.Exit(code)


async def _import(settings: Settings, files: list[Path]) -> int:
    from agent.tools.registry import ToolBox, default_tools
    from agent.ui.importing import import_files

    session, _ = await _make_session(settings, None, fork=False, patient=False)
    try:
        code = import_files(session, ToolBox(default_tools()).specs, files)
        folders().add(session.transcript.parent)
        return code
    finally:
        await session.close()


app.add_typer(past)
app.add_typer(info)
