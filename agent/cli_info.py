"""The commands that tell what holds here: the settings, and the server's models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup

from agent.cli_errors import errors_as_one_line, hide

if TYPE_CHECKING:
    from agent.config import Settings

_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""These commands take the flags of ``chat``, which knows how to read them."""

app = typer.Typer()


def _settings(context: typer.Context) -> tuple[Settings, Path | None]:
    """The settings that ``chat`` would have with the same flags, and the file of ``--config``.

    :raises ConfigError: one of them is wrong.
    """
    from agent.config import SETTING_KEYS, load_settings

    program = context.find_root().command
    if not isinstance(program, TyperGroup):
        raise TypeError("this command belongs to a program that has others")
    given = program.commands["chat"].make_context("agent chat", context.args).params
    flags = {key: given[key] for key in SETTING_KEYS if given.get(key, False) is not False}
    settings = load_settings(flags, os.environ, given["config"])
    hide(*settings.secrets)
    return settings, given["config"]


@app.command(context_settings=_FLAGS)
def config(context: typer.Context) -> None:
    """Show every setting, with its value and where that came from. Takes the flags of chat."""
    from agent.config import config_path
    from agent.ui.settings import print_settings

    with errors_as_one_line():
        settings, file = _settings(context)
        print_settings(settings, *config_path(os.environ, file))


@app.command(context_settings=_FLAGS)
def models(context: typer.Context) -> None:
    """List the models that the server offers, with their limits. Takes the flags of chat."""
    import asyncio

    from agent.config import require_endpoint

    with errors_as_one_line():
        settings, _ = _settings(context)
        require_endpoint(settings)
        code = asyncio.run(_list_models(settings))
    raise typer.Exit(code)


async def _list_models(settings: Settings) -> int:
    from agent.providers.anthropic import AnthropicProvider
    from agent.ui.settings import print_models

    provider = AnthropicProvider(
        api_key=settings.api_key, auth_token=settings.auth_token, base_url=settings.base_url
    )
    try:
        offered = await provider.offered()
    finally:
        await provider.close()
    if not offered:
        typer.echo("agent: the server offers no list of models; name one with --model", err=True)
        return 1
    print_models(offered, settings.model)
    return 0
