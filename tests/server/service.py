"""The API itself: a request in, an answer out."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from tests.server.cache import CachePlan, PromptCache
from tests.server.connection import Connection
from tests.server.delivery import send_http_fault, send_json, send_message, send_stream
from tests.server.errors import (
    METHOD_NOT_ALLOWED,
    REQUEST_TOO_LARGE,
    ApiError,
    invalid_request,
    not_found,
)
from tests.server.log import RecordedRequest, RequestLog
from tests.server.media import has_media
from tests.server.models import model_info, model_list
from tests.server.overflow import overflow_response
from tests.server.render import RenderedReply, render_block, reply_content, signed_content
from tests.server.replies import ConnectionReset, HttpFault, Reply, Step, StreamFault
from tests.server.rules import Overflow, binding_beta, check_history, check_parameters, check_size
from tests.server.script import ScriptError, ScriptPlayer
from tests.server.settings import DEFAULT_MODELS, ServerSettings
from tests.server.thinking import Signer, drop_unbound
from tests.server.tokens import count_prompt, pieces
from tests.server.wire import JsonObject, has_consecutive_roles

WINDOW_EXCEEDED = "model_context_window_exceeded"


class RefusedError(Exception):
    """The request is answered with an API error."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True)
class Exchange:
    """A request and the connection to answer it on."""

    request: RecordedRequest
    connection: Connection
    authorization: Mapping[str, str]
    request_id: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every response."""
        return {"request-id": self.request_id}


@dataclass(frozen=True)
class Prompt:
    """A valid request: its body as the model reads it, and what was dropped from it."""

    body: JsonObject
    plan: CachePlan
    transformations: list[JsonObject] | None


class Service:
    """Answers requests by the settings, which are read anew for each."""

    def __init__(self, settings: ServerSettings) -> None:
        self.log = RequestLog()
        self.player = ScriptPlayer()
        self.cache = PromptCache()
        self.signer = Signer()
        self._settings = settings

    def handle(self, exchange: Exchange) -> None:
        """Answer a request.

        Raises :class:`tests.server.connection.ClientGoneError` when the client hangs up.
        """
        try:
            self._route(exchange)
        except RefusedError as refused:
            self._send_error(exchange, refused.error)

    def _route(self, exchange: Exchange) -> None:
        settings, method = self._settings, exchange.request.method
        self._authenticate(exchange)
        path = unquote(urlsplit(exchange.request.path).path)
        if path == "/v1/messages" and method == "POST":
            self._answer_messages(exchange)
        elif path == "/v1/messages/count_tokens" and method == "POST":
            self._require(settings.count_tokens_status)
            self._answer_count(exchange)
        elif path == "/v1/models" and method == "GET":
            self._require(settings.models_status)
            self._send(exchange, model_list([self._model(name) for name in self._models()]))
        elif path.startswith("/v1/models/") and method == "GET":
            self._require(settings.models_status)
            name = path.removeprefix("/v1/models/")
            self._require_model(name)
            self._send(exchange, self._model(name))
        elif path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/models"):
            raise RefusedError(METHOD_NOT_ALLOWED)
        else:
            raise RefusedError(not_found("Not Found"))

    def _authenticate(self, exchange: Exchange) -> None:
        if "anthropic-version" not in exchange.request.headers:
            raise RefusedError(invalid_request("anthropic-version: header is required"))
        key = exchange.authorization.get("x-api-key", "")
        bearer = exchange.authorization.get("authorization", "").removeprefix("Bearer ")
        expected = self._settings.api_key
        if expected is None or expected in (key, bearer):
            return
        problem = "invalid bearer token" if bearer else "x-api-key header is required"
        if key:
            problem = "invalid x-api-key"
        raise RefusedError(ApiError(401, "authentication_error", problem))

    def _require(self, status: int) -> None:
        if status == 405:
            raise RefusedError(METHOD_NOT_ALLOWED)
        if status != 200:
            raise RefusedError(ApiError(status, "not_found_error", "Not Found"))

    def _require_model(self, name: str) -> None:
        models = self._settings.models
        if models is not None and name not in models:
            raise RefusedError(not_found(f"model: {name}"))

    def _models(self) -> list[str]:
        models = self._settings.models
        return list(DEFAULT_MODELS if models is None else models)

    def _model(self, name: str) -> JsonObject:
        settings = self._settings
        window = settings.advertised_window or settings.window
        return model_info(name, window, settings.max_output)

    def _parsed(self, exchange: Exchange) -> JsonObject:
        raw = exchange.request.raw
        if len(raw) > self._settings.max_body_bytes:
            raise RefusedError(REQUEST_TOO_LARGE)
        try:
            body = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
        except ValueError as error:
            message = f"The request body is not valid JSON: {error}"
            raise RefusedError(invalid_request(message)) from error
        if not isinstance(body, dict):
            raise RefusedError(invalid_request("Input should be a valid dictionary"))
        roles = has_consecutive_roles(body.get("messages"))
        self.log.update(exchange.request.number, body=body, consecutive_roles=roles)
        return body

    def _checked(
        self, exchange: Exchange, body: JsonObject, *, counting: bool = False
    ) -> tuple[JsonObject, list[JsonObject] | None]:
        """The body as the model reads it, and the report of what was dropped, if asked for."""
        limits = self._settings.limits
        beta = binding_beta(exchange.request.headers)
        problem = check_parameters(body, limits, beta=beta, counting=counting)
        behaviour = None if problem else _mismatch_behaviour(body)
        problem = problem or check_history(
            body.get("system"),
            body.get("tools"),
            body["messages"],
            signer=self.signer,
            bound=behaviour == "error" or (behaviour is None and self._settings.thinking_bound),
            beta=beta,
        )
        if problem:
            raise RefusedError(invalid_request(problem))
        if not self._settings.image_input and has_media(body["messages"]):
            raise RefusedError(invalid_request("This model does not support image input."))
        self._require_model(body["model"])
        if behaviour == "drop_block":
            return drop_unbound(body, self.signer)
        return body, [] if beta else None

    def _answer_count(self, exchange: Exchange) -> None:
        body, _ = self._checked(exchange, self._parsed(exchange), counting=True)
        tokens = count_prompt(body, self._settings.token_factor)
        self.log.update(exchange.request.number, prompt_tokens=tokens)
        counted = math.ceil(tokens * self._settings.count_factor)
        self._send(exchange, {"input_tokens": counted})

    def _answer_messages(self, exchange: Exchange) -> None:
        settings = self._settings
        body, transformations = self._checked(exchange, self._parsed(exchange))
        parts = pieces(body, settings.token_factor)
        plan = self.cache.plan(body, parts, settings.cache_minimum)
        prompt = Prompt(body, plan, transformations)
        self.log.update(exchange.request.number, prompt_tokens=plan.usage.total)
        overflow = check_size(body, settings.limits)
        if overflow is not None and self._overflowed(exchange, prompt, overflow):
            return
        try:
            step = self.player.step(settings.script, body)
        except ScriptError as error:
            raise RefusedError(ApiError(500, "api_error", str(error))) from error
        self._play(exchange, prompt, step)

    def _overflowed(self, exchange: Exchange, prompt: Prompt, overflow: Overflow) -> bool:
        """Answer a request that does not fit; false when it gets a reply all the same."""
        style = self._settings.overflow
        if style == "stop_reason":
            if overflow.kind == "prompt":
                self._send_reply(exchange, prompt, Reply(stop_reason=WINDOW_EXCEEDED), None)
            return overflow.kind == "prompt"
        if style == "stream_error" and prompt.body.get("stream"):
            kind = "invalid_request_error"
            fault = StreamFault("error", after_events=1, error_type=kind, message=overflow.message)
            self._send_reply(exchange, prompt, fault.reply, fault)
            return True
        response = overflow_response(style, overflow, exchange.request_id)
        fault_response = HttpFault(
            response.status, response.body, content_type=response.content_type
        )
        self._send_fault(exchange, fault_response)
        return True

    def _play(self, exchange: Exchange, prompt: Prompt, step: Step) -> None:
        match step:
            case Reply():
                self._send_reply(exchange, prompt, step, None)
            case StreamFault():
                self._send_reply(exchange, prompt, step.reply, step)
            case HttpFault():
                self._send_fault(exchange, step)
            case ConnectionReset():
                self.log.update(exchange.request.number, error="connection reset")
                exchange.connection.wait(step.delay)
                exchange.connection.reset()

    def _send_reply(
        self, exchange: Exchange, prompt: Prompt, reply: Reply, fault: StreamFault | None
    ) -> None:
        rendered = self._rendered(prompt, reply)
        self.cache.commit(prompt.plan)
        number, connection = exchange.request.number, exchange.connection
        connection.wait(reply.first_delay)
        error = f"{fault.kind}: {fault.message}" if fault is not None else ""
        self.log.update(number, status=200, usage=rendered.usage, error=error)
        if prompt.body.get("stream"):
            delay = reply.delay or self._settings.delay
            send_stream(connection, rendered, delay, fault, exchange.headers)
            return
        status = send_message(connection, rendered, fault, exchange.headers)
        self.log.update(number, status=status)

    def _rendered(self, prompt: Prompt, reply: Reply) -> RenderedReply:
        settings, body = self._settings, prompt.body
        room = settings.window - prompt.plan.usage.total
        content = reply_content(reply, max(0, min(body["max_tokens"], room)))
        message_id = f"msg_{secrets.token_hex(12)}"
        thinking = body.get("thinking") or {}
        omitted = (thinking.get("display") or settings.thinking_display) == "omitted"
        signed = signed_content(
            content.blocks, body, message_id, self.signer, omit_thinking=omitted
        )
        usual = "tool_use" if any(block["type"] == "tool_use" for block in signed) else "end_turn"
        stop_reason = reply.stop_reason or usual
        if content.cut:
            stop_reason = WINDOW_EXCEEDED if room < body["max_tokens"] else "max_tokens"
        envelope: JsonObject = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_sequence": None,
        }
        if prompt.transformations is not None:
            envelope["input_transformations"] = prompt.transformations
        blocks = tuple(render_block(block, reply.chunk_size) for block in signed)
        usage = {**prompt.plan.usage.body(content.tokens), **reply.usage}
        return RenderedReply(envelope, blocks, stop_reason, usage)

    def _send_fault(self, exchange: Exchange, fault: HttpFault) -> None:
        error = fault.body if isinstance(fault.body, str) else json.dumps(fault.body)
        self.log.update(exchange.request.number, status=fault.status, error=error)
        send_http_fault(exchange.connection, fault, exchange.headers)

    def _send_error(self, exchange: Exchange, error: ApiError) -> None:
        self.log.update(exchange.request.number, status=error.status, error=error.message)
        body = error.body(exchange.request_id)
        send_json(exchange.connection, error.status, body, exchange.headers)

    def _send(self, exchange: Exchange, body: JsonObject) -> None:
        self.log.update(exchange.request.number, status=200)
        send_json(exchange.connection, 200, body, exchange.headers)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"unexpected {name}")


def _mismatch_behaviour(body: Mapping[str, Any]) -> str | None:
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    behaviour: str | None = binding.get("prefix_mismatch_behavior")
    return behaviour
