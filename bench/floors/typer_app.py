"""A bare Typer program with two commands and a version."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(name="floor", help="A bare program.", no_args_is_help=True)


def _show_version(value: bool) -> None:
    if value:
        typer.echo("floor 1.0")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """See the help text of ``app``."""


@app.command()
def first() -> None:
    """Do nothing."""


@app.command()
def second() -> None:
    """Do nothing either."""


if __name__ == "__main__":
    app()
