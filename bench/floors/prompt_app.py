"""A bare chat: Typer, four lines printed by Rich, and a prompt of prompt_toolkit.

With ``--sdk thread`` the SDK is imported in a thread behind the prompt, with
``--sdk first`` before it.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Annotated

import typer
from prompt_toolkit import PromptSession
from rich.console import Console

app = typer.Typer(add_completion=False)


@app.command()
def chat(sdk: Annotated[str, typer.Option()] = "") -> None:
    """Read lines until the end of input."""
    if sdk == "first":
        import_module("anthropic")
    asyncio.run(_read(sdk))


async def _read(sdk: str) -> None:
    for line in ("model", "folder", "budget", "help"):
        Console().print(line)
    importing = asyncio.to_thread(import_module, "anthropic") if sdk == "thread" else None
    task = asyncio.ensure_future(importing) if importing is not None else None
    session: PromptSession[str] = PromptSession("> ", multiline=True)
    while True:
        try:
            await session.prompt_async()
        except (EOFError, KeyboardInterrupt):
            break
    if task is not None:
        await task


if __name__ == "__main__":
    app()
