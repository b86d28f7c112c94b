"""What makes a request valid, checked independently of the program.

The rules are those of the Messages API; the messages are its own words where
they are known from its documentation or from public reports. Where the API is
lenient (tool results spread over two user messages) the rules are strict.
Consecutive messages of one role are no error: the API merges them.

Each rule is a generator of violations; the first violation decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from tests.server.errors import ApiError, invalid_request
from tests.server.media import media_violations
from tests.server.shapes import blank_texts, message_shapes, system_shape, tools_shape
from tests.server.thinking import BINDING_BETA, Signer, invalid_signature, unbound_message
from tests.server.tokens import count_prompt
from tests.server.wire import THINKING_TYPES, JsonObject, blocks, compact

MAX_BREAKPOINTS = 4
COUNT_FIELDS = frozenset(
    {
        *("cache_control", "context_management", "mcp_servers", "messages", "model"),
        *("output_config", "output_format", "speed", "system", "thinking", "tool_choice", "tools"),
    }
)
REQUEST_FIELDS = COUNT_FIELDS | {
    *("container", "diagnostics", "inference_geo", "max_tokens", "metadata", "service_tier"),
    *("stop_sequences", "stream", "temperature", "top_k", "top_p"),
}
THINKING_MODES = ("adaptive", "between_tools", "disabled", "enabled")

OverflowKind: TypeAlias = Literal["prompt", "prompt_and_output"]


@dataclass(frozen=True)
class Limits:
    """A model's limits in tokens.

    ``factor`` scales the token count; ``strict_parameters`` refuses what
    current models refuse: sampling parameters, forced tools, disabled or
    budgeted thinking.
    """

    window: int = 200_000
    max_output: int = 64_000
    factor: float = 1.0
    strict_parameters: bool = True


@dataclass(frozen=True)
class Overflow:
    """A request that does not fit its window, in tokens."""

    kind: OverflowKind
    input_tokens: int
    max_tokens: int
    window: int

    @property
    def message(self) -> str:
        """The API's message."""
        if self.kind == "prompt":
            return f"prompt is too long: {self.input_tokens} tokens > {self.window} maximum"
        return (
            f"input length and `max_tokens` exceed context limit: {self.input_tokens} + "
            f"{self.max_tokens} > {self.window}, decrease input length or `max_tokens` and try "
            "again"
        )


def check_history(
    system: object,
    tools: object,
    messages: object,
    *,
    signer: Signer | None = None,
    bound: bool = False,
    beta: bool = False,
) -> str | None:
    """The API's message for the first rule that a history breaks; ``None`` when it is valid.

    The arguments are the request's JSON. Without ``signer`` any signature is
    accepted; with ``bound``, thinking must stand in the conversation that it
    was made in. ``beta`` says whether the binding's header was sent.
    """
    return next(_violations(system, tools, messages, signer, bound, beta), None)


def check_parameters(
    body: Mapping[str, Any], limits: Limits, *, beta: bool = False, counting: bool = False
) -> str | None:
    """The API's message for the first parameter that is refused, or ``None``.

    ``counting`` checks a ``count_tokens`` request, which has no ``max_tokens``.
    """
    return next(_parameter_violations(body, limits, beta, counting), None)


def check_size(body: Mapping[str, Any], limits: Limits) -> Overflow | None:
    """How a valid request exceeds the window, or ``None`` when it fits."""
    tokens = count_prompt(body, limits.factor)
    if tokens > limits.window:
        return Overflow("prompt", tokens, body["max_tokens"], limits.window)
    if tokens + body["max_tokens"] > limits.window:
        return Overflow("prompt_and_output", tokens, body["max_tokens"], limits.window)
    return None


def check_request(
    body: Mapping[str, Any],
    limits: Limits,
    *,
    signer: Signer | None = None,
    bound: bool = False,
    beta: bool = False,
) -> ApiError | None:
    """The refusal of a whole request (all rules, the window too), or ``None``."""
    message = check_parameters(body, limits, beta=beta) or check_history(
        body.get("system"),
        body.get("tools"),
        body.get("messages"),
        signer=signer,
        bound=bound,
        beta=beta,
    )
    if message:
        return invalid_request(message)
    overflow = check_size(body, limits)
    return invalid_request(overflow.message) if overflow else None


def _violations(
    system: object,
    tools: object,
    messages: object,
    signer: Signer | None,
    bound: bool,
    beta: bool,
) -> Iterator[str]:
    yield from _surrogates([system, tools, messages])
    yield from message_shapes(messages)
    yield from system_shape(system)
    yield from tools_shape(tools)
    history: list[JsonObject] = messages if isinstance(messages, list) else []
    yield from _ends(history)
    for message in history:
        yield from blank_texts("messages", blocks(message["content"]))
    yield from media_violations(history)
    yield from _tool_pairs(history)
    yield from _thinking_order(history)
    yield from _breakpoints({"system": system, "tools": tools, "messages": messages})
    if signer is not None:
        if problem := invalid_signature(system, tools, history, signer):
            yield problem
        if bound and (problem := unbound_message(system, tools, history, signer, beta=beta)):
            yield problem


def _surrogates(value: object) -> Iterator[str]:
    try:
        compact(value).encode("utf-8")
    except UnicodeEncodeError:
        yield "The request body is not valid JSON: no low surrogate in string"


def _ends(messages: list[JsonObject]) -> Iterator[str]:
    if messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    last = messages[-1]
    if last["role"] == "user":
        return
    final = blocks(last["content"])[-1]
    if final["type"] == "text" and final["text"] != final["text"].rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"
    yield (
        "This model does not support assistant message prefill. The conversation must end with "
        "a user message."
    )


def _tool_pairs(messages: list[JsonObject]) -> Iterator[str]:
    seen: set[str] = set()
    nothing: JsonObject = {"role": "user", "content": []}
    for index, (message, following) in enumerate(pairwise([nothing, *messages, nothing])):
        uses = _ids(message, "tool_use", "id")
        for position, identifier in uses:
            if identifier in seen:
                yield f"messages.{index - 1}.content.{position}: `tool_use` ids must be unique"
            seen.add(identifier)
        wanted = [identifier for _, identifier in uses]
        missing = [name for name in wanted if name not in _leading_results(following)]
        if missing:
            yield (
                f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        yield from _unexpected_results(index, following, wanted)


def _unexpected_results(index: int, message: JsonObject, wanted: list[str]) -> Iterator[str]:
    answered: set[str] = set()
    for position, identifier in _ids(message, "tool_result", "tool_use_id"):
        if identifier not in wanted:
            yield (
                f"messages.{index}.content.{position}: unexpected `tool_use_id` found in "
                f"`tool_result` blocks: {identifier}. Each `tool_result` block must have a "
                "corresponding `tool_use` block in the previous message."
            )
        if identifier in answered:
            yield (
                f"messages.{index}.content.{position}: each tool_use must have a single result. "
                f"Found multiple `tool_result` blocks with id: {identifier}"
            )
        answered.add(identifier)


def _ids(message: JsonObject, kind: str, field: str) -> list[tuple[int, str]]:
    content = enumerate(blocks(message["content"]))
    return [(position, block[field]) for position, block in content if block["type"] == kind]


def _leading_results(message: JsonObject) -> set[str]:
    """The calls answered before anything else stands in a message."""
    answered: set[str] = set()
    for block in blocks(message["content"]):
        if block["type"] != "tool_result":
            break
        answered.add(block["tool_use_id"])
    return answered


def _thinking_order(messages: list[JsonObject]) -> Iterator[str]:
    for index, message in enumerate(messages):
        kinds = [block["type"] for block in blocks(message["content"])]
        if not THINKING_TYPES.intersection(kinds):
            continue
        if kinds[0] not in THINKING_TYPES:
            yield (
                f"messages.{index}.content.0: If an assistant message contains any thinking "
                "blocks, the first block must be `thinking` or `redacted_thinking`. "
                f"Found `{kinds[0]}`."
            )
        if kinds[-1] in THINKING_TYPES:
            yield (
                f"messages.{index}: The final block in an assistant message cannot be "
                f"`{kinds[-1]}`."
            )


def _breakpoints(body: Mapping[str, Any]) -> Iterator[str]:
    """At most four cache markers, the automatic one included; long-lived ones first."""
    marked: list[tuple[str, object]] = []
    for section in ("tools", "system"):
        for index, block in enumerate(blocks(body.get(section))):
            marked.append((f"{section}.{index}", block.get("cache_control")))
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(blocks(message["content"])):
            marked.append((f"messages.{index}.content.{position}", block.get("cache_control")))
    if body.get("cache_control") is not None:
        marked = [*marked, ("", body["cache_control"])]
    markers = [(path, marker) for path, marker in marked if marker is not None]
    short = False
    for path, marker in markers:
        where = f"{path}.cache_control".lstrip(".")
        ttl = marker.get("ttl", "5m") if isinstance(marker, dict) else None
        if not isinstance(marker, dict) or marker.get("type") != "ephemeral":
            yield f"{where}.type: Input should be 'ephemeral'"
        if ttl not in ("5m", "1h"):
            yield f"{where}.ttl: Input should be '5m' or '1h'"
        if ttl == "1h" and short:
            yield (
                f"{where}.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' "
                "cache_control block. Note that blocks are processed in the following order: "
                "`tools`, `system`, `messages`."
            )
        short = short or ttl == "5m"
    if len(markers) > MAX_BREAKPOINTS:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(markers)}."


def _parameter_violations(
    body: Mapping[str, Any], limits: Limits, beta: bool, counting: bool
) -> Iterator[str]:
    yield from _surrogates({key: body[key] for key in body if key != "messages"})
    for field in ("model", "messages") if counting else ("model", "max_tokens", "messages"):
        if field not in body:
            yield f"{field}: Field required"
    for field in body:
        if field not in (COUNT_FIELDS if counting else REQUEST_FIELDS):
            yield f"{field}: Extra inputs are not permitted"
    if not isinstance(body["model"], str) or not body["model"]:
        yield "model: String should have at least 1 character"
    if not counting:
        yield from _output_limit(body["max_tokens"], body["model"], limits)
    yield from _thinking_config(body.get("thinking"), limits, beta)
    if limits.strict_parameters:
        yield from _removed_parameters(body)
    if body.get("cache_control") is not None and not any(message_shapes(body["messages"])):
        yield from _breakpoints(body)


def _output_limit(max_tokens: object, model: str, limits: Limits) -> Iterator[str]:
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool):
        yield "max_tokens: Input should be a valid integer"
    elif max_tokens < 1:
        yield "max_tokens: Input should be greater than or equal to 1"
    elif max_tokens > limits.max_output:
        yield (
            f"max_tokens: {max_tokens} > {limits.max_output}, which is the maximum allowed number "
            f"of output tokens for {model}"
        )


def _thinking_config(thinking: object, limits: Limits, beta: bool) -> Iterator[str]:
    if thinking is None:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if not isinstance(thinking, dict) or kind not in THINKING_MODES:
        yield "thinking: Input should be a valid thinking configuration"
        return
    if "block_binding" in thinking and not beta:
        yield f"thinking.{kind}.block_binding: Extra inputs are not permitted"
    if limits.strict_parameters and kind == "enabled":
        yield (
            '"thinking.type.enabled" is not supported for this model. Use '
            '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        )
    if limits.strict_parameters and kind == "disabled":
        yield (
            '"thinking.type.disabled" is not supported for this model. Thinking defaults to '
            "adaptive mode when not specified."
        )


def _removed_parameters(body: Mapping[str, Any]) -> Iterator[str]:
    defaults = {"temperature": 1, "top_p": 1, "top_k": None}
    for field, default in defaults.items():
        if body.get(field, default) not in (None, default):
            yield f"`{field}` is deprecated for this model."
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("any", "tool"):
        yield 'tool_choice: type "tool" and "any" are not supported for this model'


def binding_beta(headers: Mapping[str, str]) -> bool:
    """Whether a request's headers (names in lower case) allow ``block_binding``."""
    return BINDING_BETA in headers.get("anthropic-beta", "")
