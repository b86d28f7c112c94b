"""What is known of the models in use: limits, budgets, prices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace

from agent.config import ModelSettings, Settings
from agent.context.budget import (
    SMALL_WINDOW,
    UNKNOWN_WINDOW,
    Budget,
    known_limits,
    lower_window,
    make_budget,
)
from agent.errors import ProviderError
from agent.messages import Usage
from agent.providers.base import Limits, Provider
from agent.system_prompt import Form

_PAUSE_SECONDS = 60.0
"""How long a server that did not tell a model's limits is not asked again."""

_CACHE_READ, _CACHE_WRITE = 0.1, 1.25
"""Cache prices relative to plain input."""


class Models:
    """Limits from the configuration, the server, or the built-in table, in this order."""

    def __init__(self, settings: Settings, provider: Provider) -> None:
        self._settings = settings
        self._provider = provider
        self._limits: dict[str, Limits] = {}
        self._learning = asyncio.Lock()
        self._ask_again_at = 0.0

    async def learn(self, models: Iterable[str]) -> bool:
        """Ask the server for limits that are not known yet; whether something was learnt.

        A failure shows in the next request itself; the table serves, and a later call
        asks again.
        """
        learnt = False
        async with self._learning:
            for model in models:
                if model in self._limits or time.monotonic() < self._ask_again_at:
                    continue
                try:
                    limits = await self._provider.limits(model)
                except ProviderError:
                    # Told by the request that follows.
                    self._ask_again_at = time.monotonic() + _PAUSE_SECONDS
                    break
                self._limits[model] = limits or known_limits(model)
                learnt = True
        return learnt

    def unknown(self, model: str) -> bool:
        """Whether only the server can tell what the model is."""
        return model not in self._limits and known_limits(model) is UNKNOWN_WINDOW

    def form(self, model: str) -> Form:
        """How the model is best instructed."""
        tools = model not in self._limits or self._limits[model].tools
        return Form(short=self.budget(model).window <= SMALL_WINDOW, tools=tools)

    def budget(self, model: str, shown_window: int = 0) -> Budget:
        """The budget for a model; ``shown_window`` is one that a refusal has told, or 0."""
        limits = self._limits.get(model) or known_limits(model)
        own = self._own(model)
        if own.context_window or own.max_output_tokens:
            limits = Limits(
                own.context_window or limits.window,
                own.max_output_tokens or limits.max_output,
                "the configuration",
            )
        budget = make_budget(
            limits, self._settings.max_input_tokens, self._settings.max_output_tokens
        )
        return lower_window(budget, shown_window) if shown_window else budget

    def summary_budget(self, model: str) -> Budget:
        """The budget of a model that only writes summaries: what its window allows."""
        limits = self._limits.get(model) or known_limits(model)
        own = self._own(model)
        window = own.context_window or limits.window
        output = own.max_output_tokens or limits.max_output
        return make_budget(Limits(window, output, limits.source), None, output)

    def cost(self, model: str, usage: Usage) -> float | None:
        """What some usage has cost in USD; ``None`` where no price is configured."""
        own = self._own(model)
        if own.input_price is None or own.output_price is None:
            return None
        units = (
            usage.input_tokens
            + _CACHE_READ * usage.cache_read_input_tokens
            + _CACHE_WRITE * usage.cache_creation_input_tokens
        )
        return (units * own.input_price + usage.output_tokens * own.output_price) / 1e6

    def _own(self, model: str) -> ModelSettings:
        own = self._settings.models.get(model, ModelSettings())
        return replace(own, context_window=self._settings.context_window or own.context_window)
