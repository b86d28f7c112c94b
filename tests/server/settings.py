"""What can be set of the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.server.overflow import OverflowStyle
from tests.server.rules import Limits
from tests.server.script import Script

DEFAULT_MODELS = ("claude-sonnet-5-5", "claude-haiku-5-5", "claude-opus-5-5")


@dataclass(kw_only=True)
class ServerSettings:
    """The server's settings. Each may be changed while it runs. Sizes are in tokens.

    - ``script``: see :data:`tests.server.script.Script`
    - ``window``, ``max_output``: the limits that are enforced
    - ``advertised_window``: what the models endpoint says instead of ``window``
    - ``models``: the ids that exist; ``None`` accepts any
    - ``api_key``: required as ``x-api-key`` or bearer token; ``None`` accepts any
    - ``max_body_bytes``: a larger body gets a 413
    - ``overflow``: the vendor in whose words a prompt is too long
    - ``token_factor`` scales the token count; ``count_factor`` only what
      ``count_tokens`` answers, which is approximate in reality
    - ``count_tokens_status``, ``models_status``: 404 or 405 switches an endpoint off
    - ``cache_minimum``: the shortest prefix that is cached
    - ``image_input``: whether the model takes images and documents
    - ``thinking_bound``: whether thinking must stand in its own conversation
    - ``thinking_display``: what a request without ``thinking.display`` gets;
      ``omitted``, as on current models, leaves only the signature
    - ``strict_parameters``: refuse what current models refuse
    - ``delay``: seconds before each delta of a reply that has no delay of its own
    """

    script: Script = ()
    window: int = 200_000
    advertised_window: int | None = None
    max_output: int = 64_000
    models: Sequence[str] | None = None
    api_key: str | None = None
    max_body_bytes: int = 32_000_000
    overflow: OverflowStyle = "anthropic"
    token_factor: float = 1.0
    count_factor: float = 1.0
    count_tokens_status: int = 200
    models_status: int = 200
    cache_minimum: int = 1024
    image_input: bool = True
    thinking_bound: bool = True
    thinking_display: str = "omitted"
    strict_parameters: bool = True
    delay: float = 0.0
    host: str = "127.0.0.1"
    port: int = 0

    @property
    def limits(self) -> Limits:
        """The limits that requests are checked against."""
        return Limits(self.window, self.max_output, self.token_factor, self.strict_parameters)
