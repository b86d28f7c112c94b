"""The Messages API through the ``anthropic`` SDK. The only module that imports it.

The SDK takes seconds to import, so that happens in a thread, when it is first needed
or when :meth:`AnthropicProvider.warm_up` is called. Its retries are off: waiting is
the loop's business, where it can be seen and stopped. Redirects are off, so that the
conversation and the key go to no other host.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING

from agent.errors import AuthenticationError, ProviderBusyError, ProviderError, StreamBrokenError
from agent.providers.assembly import Assembly
from agent.providers.base import (
    EndPart,
    LackPart,
    Limits,
    OfferedModel,
    Part,
    QuietPart,
    Request,
    SummaryForm,
)
from agent.providers.body import BodyEncoder
from agent.providers.lacks import Lacks
from agent.providers.watch import Patience, Watch
from agent.tasks import in_daemon
from agent.wire import compact_json

if TYPE_CHECKING:
    import anthropic

DEFAULT_BASE_URL = "https://api.anthropic.com"

CONNECT_SECONDS = 15.0

COUNT_SECONDS = 4.0
"""How long a count is waited for; without it there is an estimate."""

LIMITS_SECONDS = 5.0
"""How long a model's limits are waited for; without them there is a table."""

_MOST_LISTED = 1_000
"""Models on one page, which is all that is asked for; more than any server has."""

_BUSY_STATUSES = frozenset({408, 409, 425, 429})
_BUSY_TYPES = frozenset({"overloaded_error", "rate_limit_error", "api_error", "timeout_error"})
_LASTING_TYPES = frozenset(
    {
        "authentication_error",
        "billing_error",
        "invalid_request_error",
        "not_found_error",
        "permission_error",
        "request_too_large",
    }
)
_MISSING_STATUSES = frozenset({404, 405, 501})


class AnthropicProvider:
    """One endpoint that speaks the Messages API. Implements :class:`.base.Provider`."""

    def __init__(
        self,
        *,
        api_key: str | None,
        auth_token: str | None,
        base_url: str | None,
        patience: Patience | None = None,
    ) -> None:
        self._api_key = api_key
        self._auth_token = auth_token
        self._base_url = base_url or DEFAULT_BASE_URL
        self._patience = patience or Patience()
        self._client: anthropic.AsyncAnthropic | None = None
        self._connecting = asyncio.Lock()
        self._adaptive_thinking: set[str] = set()
        self._bodies = BodyEncoder()
        self._summary_form: SummaryForm = "inline"
        self._lacks = Lacks()

    @property
    def summary_form(self) -> SummaryForm:
        """See :attr:`.base.Provider.summary_form`."""
        return self._summary_form

    async def warm_up(self) -> None:
        """Import the SDK and make the client, without blocking the event loop."""
        await self._connected()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """See :meth:`.base.Provider.stream`."""
        while True:
            for lack in self._lacks.take_untold():
                yield LackPart(lack)
            try:
                async with aclosing(self._received(request)) as parts:
                    async for part in parts:
                        yield part
            except ProviderError as error:
                if not self._lacks.can_do_without(error):
                    raise
            else:
                return

    async def _received(self, request: Request) -> AsyncGenerator[Part, None]:
        """The parts of one answer."""
        client = await self._connected()
        assembly, watch = Assembly(), Watch(self._patience)
        try:
            async with (
                aclosing(self._events(client, request, watch)) as received,
                aclosing(watch.items(received)) as events,
            ):
                async for event in events:
                    for part in (event,) if isinstance(event, QuietPart) else assembly.feed(event):
                        yield part
                        if isinstance(part, EndPart):
                            return
        except Exception as error:
            # The SDK lets raw transport errors, and whatever a malformed stream provokes
            # (assertions, index and decoding errors), through; all become our own.
            raise self._translated(error) from error
        raise StreamBrokenError("the answer ended before the server said it was complete")

    async def _events(
        self, client: anthropic.AsyncAnthropic, request: Request, watch: Watch
    ) -> AsyncGenerator[dict[str, object], None]:
        """The events of an answer as dictionaries; pings are not among them."""
        sdk = importlib.import_module("anthropic")
        events = await client.post(
            "/v1/messages",
            content=self._body(request, {"max_tokens": request.max_tokens, "stream": True}),
            cast_to=sdk.types.Message,
            stream=True,
            stream_cls=sdk.AsyncStream[sdk.types.RawMessageStreamEvent],
        )
        watch.received = lambda: events.response.num_bytes_downloaded
        async with events:
            async for event in events:
                # What a server gets wrong must not be written to the terminal as a warning.
                yield event.model_dump(exclude_unset=True, warnings=False)

    async def count(self, request: Request) -> int | None:
        """See :meth:`.base.Provider.count`."""
        client = await self._connected()
        try:
            async with asyncio.timeout(COUNT_SECONDS):
                counted: object = await client.post(
                    "/v1/messages/count_tokens",
                    content=self._body(request, {}),
                    cast_to=importlib.import_module("anthropic").types.MessageTokensCount,
                )
        except Exception as error:
            # As in stream(): nothing but ProviderError leaves this module.
            translated = self._translated(error)
            if translated.status in _MISSING_STATUSES:
                self._lacks.note(
                    "count_tokens", "this server does not count tokens: sizes are estimated"
                )
                return None
            raise translated from error
        # A gateway may answer anything with its start page, which the SDK gives as text.
        tokens = getattr(counted, "input_tokens", None)
        return tokens if isinstance(tokens, int) else None

    async def limits(self, model: str) -> Limits | None:
        """See :meth:`.base.Provider.limits`."""
        client = await self._connected()
        try:
            async with asyncio.timeout(LIMITS_SECONDS):
                info: object = await client.models.retrieve(model)
        except Exception as error:
            # As in stream(): nothing but ProviderError leaves this module.
            translated = self._translated(error)
            if translated.status == 400 or translated.status in _MISSING_STATUSES:
                return await self._limits_of_llama_server(client)
            raise translated from error
        data = to_dict() if callable(to_dict := getattr(info, "model_dump", None)) else {}
        if _nested(data, "capabilities", "thinking", "types", "adaptive", "supported") is True:
            self._adaptive_thinking.add(model)
        window, output = data.get("max_input_tokens"), data.get("max_tokens")
        if not isinstance(window, int) or window <= 0:
            return None
        most = output if isinstance(output, int) and output > 0 else window
        return Limits(window, most, "the server")

    async def offered(self) -> tuple[OfferedModel, ...] | None:
        """The models that the server lists, in its order; ``None`` when it has no list.

        :raises ProviderError: it refused or failed.
        """
        client = await self._connected()
        try:
            page: object = await client.models.list(limit=_MOST_LISTED)
        except Exception as error:
            # As in stream(): nothing but ProviderError leaves this module.
            translated = self._translated(error)
            if translated.status == 400 or translated.status in _MISSING_STATUSES:
                return None
            raise translated from error
        listed = getattr(page, "data", None)
        if not isinstance(listed, list):
            return None
        models = (info.model_dump() for info in listed if hasattr(info, "model_dump"))
        return tuple(
            OfferedModel(
                str(data["id"]), _tokens(data, "max_input_tokens"), _tokens(data, "max_tokens")
            )
            for data in models
            if data.get("id")
        )

    async def _limits_of_llama_server(self, client: anthropic.AsyncAnthropic) -> Limits | None:
        """What ``/props`` says, as llama.cpp's server has it; ``None`` where there is none."""
        try:
            async with asyncio.timeout(LIMITS_SECONDS):
                props: object = await client.get("/props", cast_to=object)
        except Exception as error:
            # As in stream(): nothing but ProviderError leaves this module.
            status = self._translated(error).status
            if status is None:
                raise self._translated(error) from error
            props = None
        window = _nested(props, "default_generation_settings", "n_ctx")
        if not isinstance(window, int) or window <= 0:
            lack = "this server does not tell the model's window: see --context-window"
            self._lacks.note("models", lack)
            return None
        self._summary_form = "told"
        tools = _nested(props, "chat_template_caps", "supports_tools") is not False
        if not tools:
            self._lacks.note("tools", "this model's chat template knows no tools: it is given none")
        return Limits(window, window, "the server", tools)

    async def close(self) -> None:
        """See :meth:`.base.Provider.close`."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _connected(self) -> anthropic.AsyncAnthropic:
        async with self._connecting:
            if self._client is None:
                sdk = await in_daemon(partial(importlib.import_module, "anthropic"))
                timeout = sdk.Timeout(self._patience.no_bytes_seconds, connect=CONNECT_SECONDS)
                no_key = self._api_key is None and self._auth_token is None
                self._client = sdk.AsyncAnthropic(
                    # The SDK wants some key even for a server that asks for none.
                    api_key="none" if no_key else self._api_key,
                    auth_token=self._auth_token,
                    base_url=self._base_url,
                    max_retries=0,
                    timeout=timeout,
                    http_client=sdk.DefaultAsyncHttpxClient(
                        follow_redirects=False, timeout=timeout
                    ),
                )
            return self._client

    def _body(self, request: Request, more: dict[str, object]) -> bytes:
        if request.model in self._adaptive_thinking and "thinking" not in self._lacks.known:
            # Without it a user sees nothing of what the model does between tool calls.
            more["thinking"] = {"type": "adaptive", "display": "summarized"}
        return self._bodies.encode(request, more, self._lacks.known)

    def _translated(self, error: Exception) -> ProviderError:
        """An exception of the SDK or of its transport as one of ours."""
        sdk = importlib.import_module("anthropic")
        if isinstance(error, ProviderError):
            return error
        if isinstance(error, sdk.APIStatusError):
            return _status_error(error, [k for k in (self._api_key, self._auth_token) if k])
        if isinstance(error, TimeoutError):
            return ProviderBusyError("the server did not answer in time")
        unreachable = isinstance(error, sdk.APIConnectionError)
        kind = ProviderBusyError if unreachable else StreamBrokenError
        cause = error.__cause__ or error
        if type(cause).__name__ == "ReadTimeout":
            seconds = self._patience.no_bytes_seconds
            return kind(f"the server sent nothing for {seconds:g} s")
        if type(cause).__name__ == "ConnectTimeout":
            return kind(f"cannot reach the server within {CONNECT_SECONDS:g} s")
        if unreachable:
            return kind(f"cannot reach the server: {_words(cause)}")
        if type(error).__module__.startswith(("httpx", "httpcore")):
            return kind(f"the connection failed: {_words(error)}")
        return kind(f"the server's answer cannot be read: {_words(error)}")


def _tokens(data: Mapping[str, object], key: str) -> int | None:
    value = data.get(key)
    return value if isinstance(value, int) and value > 0 else None


def _status_error(error: anthropic.APIStatusError, keys: Sequence[str]) -> ProviderError:
    """A server's refusal as one of our errors; a key that it repeats is left out."""
    body = error.body if isinstance(error.body, str) else compact_json(error.body or {})
    if not error.body:
        body = error.message
    body = _without(keys, body)
    status = error.status_code
    kind = _nested(error.body, "error", "type")
    reason = _nested(error.body, "error", "message") or _nested(error.body, "message")
    text = " ".join(_without(keys, str(reason or error.message)).split())[:500]
    message = f"the server answered {status}: {text}" if status != 200 else f"the server: {text}"
    if 300 <= status < 400 and (place := error.response.headers.get("location")):
        message = (
            f"the server answered {status}: it sends this program on to {' '.join(place.split())}, "
            "which is not followed; if that is the right place, set --base-url to it"
        )
    if status in (401, 403):
        message += "; agent config shows where the key came from"
        return AuthenticationError(message, status=status, body=body)
    if status == 404 and kind == "not_found_error":
        message += "; agent models lists what the server offers"
    # Only an error inside a stream, whose status was 200, needs its type to be understood.
    if status in _BUSY_STATUSES or status >= 500 or (status == 200 and kind in _BUSY_TYPES):
        wait = _retry_after(error.response.headers)
        return ProviderBusyError(message, status=status, body=body, retry_after=wait)
    if status == 200 and kind not in _LASTING_TYPES:
        return StreamBrokenError(message, status=status, body=body)
    return ProviderError(message, status=status, body=body)


def _without(keys: Sequence[str], text: str) -> str:
    for key in keys:
        text = text.replace(key, "[the key]")
    return text


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from ``retry-after-ms`` or ``retry-after``, which may also be a date."""
    for name, scale in (("retry-after-ms", 1_000.0), ("retry-after", 1.0)):
        text = headers.get(name, "")
        try:
            seconds = float(text) / scale
        except ValueError:
            seconds = _seconds_until(text)
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    return None


def _seconds_until(date: str) -> float:
    """How far away an HTTP date is; not a number when it is none."""
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        # No wish that can be understood: the loop's own waiting time is used.
        return math.nan


def _nested(value: object, *path: str) -> object:
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
