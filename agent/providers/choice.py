"""Which provider the settings mean."""

from __future__ import annotations

from agent.config import Settings
from agent.providers.base import Provider


def make_provider(settings: Settings) -> tuple[Provider, tuple[str, ...]]:
    """The provider, and what a person should be told of it, a line each."""
    if settings.weights is not None:
        from agent.providers.local import DEFAULT_WINDOW, LocalProvider, told_of

        window = settings.context_window or DEFAULT_WINDOW
        local = LocalProvider(settings.weights, settings.model, window)
        return local, told_of(settings.weights)
    from agent.providers.anthropic import AnthropicProvider
    from agent.providers.watch import Patience

    patience = Patience(settings.no_bytes_seconds, settings.no_content_seconds)
    return AnthropicProvider(
        api_key=settings.api_key,
        auth_token=settings.auth_token,
        base_url=settings.base_url,
        patience=patience,
    ), ()
