"""How vendors say that a request is too long.

Every style is a shape seen in public reports of the vendor named, or of a
server behind a compatible URL.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tests.server.errors import ApiError, invalid_request
from tests.server.rules import Overflow
from tests.server.wire import JsonObject

OverflowStyle: TypeAlias = Literal[
    "anthropic",
    "anthropic_413",
    "bedrock",
    "empty_413",
    "gemini",
    "html_413",
    "llama.cpp",
    "ollama",
    "openai",
    "openrouter",
    "stop_reason",
    "stream_error",
    "vllm",
]
"""``stream_error`` answers 200 and then an error event; ``stop_reason`` answers 200
with ``model_context_window_exceeded``. The others are HTTP errors."""

HTML_413 = (
    "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n"
    "<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx</center>\r\n"
    "</body>\r\n</html>\r\n"
)


@dataclass(frozen=True)
class OverflowResponse:
    """The status, body and content type of an HTTP error."""

    status: int
    body: str
    content_type: str = "application/json"


def overflow_response(
    style: OverflowStyle, overflow: Overflow, request_id: str
) -> OverflowResponse:
    """The HTTP error of a style. The two styles that answer 200 are told as ``anthropic``."""
    if style == "html_413":
        return OverflowResponse(413, HTML_413, "text/html")
    if style == "empty_413":
        return OverflowResponse(413, "", "text/plain")
    if style == "anthropic_413":
        error = ApiError(413, "invalid_request_error", "Request size exceeds model context window")
        return OverflowResponse(413, json.dumps(error.body(request_id)))
    vendor = VENDORS.get(style)
    body = vendor(overflow) if vendor else invalid_request(overflow.message).body(request_id)
    return OverflowResponse(400, json.dumps(body))


def _openai(overflow: Overflow) -> JsonObject:
    tokens, output = overflow.input_tokens, overflow.max_tokens
    limit = f"This model's maximum context length is {overflow.window} tokens. However, "
    if overflow.kind == "prompt":
        rest = f"your messages resulted in {tokens} tokens. Please reduce the length of the "
        message = f"{limit}{rest}messages."
    else:
        rest = f"you requested {tokens + output} tokens ({tokens} in the messages, {output} in "
        message = f"{limit}{rest}the completion). Please reduce the length of either one."
    code = {"param": "messages", "code": "context_length_exceeded"}
    return {"error": {"message": message, "type": "invalid_request_error", **code}}


def _llama_cpp(overflow: Overflow) -> JsonObject:
    tokens, window = overflow.input_tokens, overflow.window
    message = (
        f"request ({tokens} tokens) exceeds the available context size ({window} tokens), try "
        "increasing it"
    )
    sizes = {"n_prompt_tokens": tokens, "n_ctx": window}
    kind = {"code": 400, "type": "exceed_context_size_error"}
    return {"error": {**kind, "message": message, **sizes}}


def _vllm(overflow: Overflow) -> JsonObject:
    message = (
        f"This model's maximum context length is {overflow.window} tokens. However, your request "
        f"has {overflow.input_tokens} input tokens plus {overflow.max_tokens} 'max_tokens'. "
        "Please reduce one or the other."
    )
    return {"error": {"message": message, "type": "BadRequestError", "code": 400}}


def _openrouter(overflow: Overflow) -> JsonObject:
    tokens, output = overflow.input_tokens, overflow.max_tokens
    message = (
        f"This endpoint's maximum context length is {overflow.window} tokens. However, you "
        f"requested about {tokens + output} tokens ({tokens} of text input, {output} in the "
        "output). Please reduce the length of either one."
    )
    return {"error": {"message": message, "code": 400, "metadata": {"provider_name": None}}}


def _gemini(overflow: Overflow) -> JsonObject:
    message = (
        f"The input token count ({overflow.input_tokens}) exceeds the maximum number of tokens "
        f"allowed ({overflow.window})."
    )
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def _bedrock(overflow: Overflow) -> JsonObject:
    return {"message": f"The model returned the following errors: {overflow.message}"}


def _ollama(_overflow: Overflow) -> JsonObject:
    return {"error": "the input length exceeds the context length"}


VENDORS: dict[OverflowStyle, Callable[[Overflow], JsonObject]] = {
    "bedrock": _bedrock,
    "gemini": _gemini,
    "llama.cpp": _llama_cpp,
    "ollama": _ollama,
    "openai": _openai,
    "openrouter": _openrouter,
    "vllm": _vllm,
}
