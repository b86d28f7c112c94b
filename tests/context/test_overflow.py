"""Overflow or not: own sentences for every kind, and the collected bodies of many vendors."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from agent.context.overflow import Overflow, classify, classify_stop, classify_text
from agent.errors import ProviderBusyError, ProviderError

SHARED_DATA = Path(__file__).parents[2].parent / "shared" / "data"


def wrapped(message: str, **fields: object) -> str:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", **fields}})


# (what a server says, limit, size)
TOO_LONG = [
    # figures on either side of the complaint
    ("prompt is too long: 312450 tokens > 200000 maximum", 200_000, 312_450),
    ("The prompt is too long: 140000, model maximum context length: 131071", 131_071, 140_000),
    ("Requested tokens (4113) exceed context window of 4096", 4096, 4113),
    (
        "number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.",
        202752,
        204703,
    ),
    ("Requested input length 40000 exceeds maximum input length 32768", 32_768, 40_000),
    ("Input length (265330) exceeds model's maximum context length (262144).", 262_144, 265_330),
    ("The number of tokens in your request (9000) exceeds the maximum allowed (8192).", 8192, 9000),
    ("The model has a context window of 8192 tokens, but your prompt is 9000 tokens", 8192, 9000),
    ("This model supports at most 32768 tokens of context, but 40000 were given", 32_768, 40_000),
    (
        "Context overflow: a conversation of 210000 tokens, the context limit is 200000",
        200000,
        210000,
    ),
    ("prompt_tokens 9000 larger than max_model_len 8192", 8192, 9000),
    ("input (9000 tokens) too large: the model takes 8192 tokens", 8192, 9000),
    ("Too many input tokens: 9000 > 8192", 8192, 9000),
    ("Exceeded maximum context: 9000 tokens given, 8192 allowed", 8192, 9000),
    (
        "This model’s context of 8192 tokens; your prompt exceeds the context size by far",
        8192,
        None,
    ),
    ("`inputs` must have less than 4096 tokens. Given: 5000", 4096, 5000),
    ("`inputs` tokens must be <= 4095. Given: 5021", 4095, 5021),
    ("Range of input length should be [1, 129024]", 129_024, None),
    ("request (70001 tokens) exceeds the available context size (65536 tokens)", 65_536, 70_001),
    ("keep 13055 prompt tokens: greater than the context length (n_ctx: 4096)", 4096, 13055),
    (
        "Prompt contains 170397 tokens and 0 drafts, too large for 131072 maximum context",
        131072,
        170397,
    ),
    # separators and multiples
    (
        "input token count is 1,198,764 but the model only supports up to 1,048,576",
        1048576,
        1198764,
    ),
    ("The prompt has 150 321 tokens, however the model accepts at most 128 000", 128_000, 150_321),
    ("the prompt has 9_000 tokens, over the context limit of 8_192", 8192, 9000),
    ("larger than the 128k context window of this model", 128_000, None),
    # one figure, or one that is something else
    ("It doesn't fit into the model's context window (131,072 tokens).", 131_072, None),
    (
        "too many tokens: exceeded by 11326 tokens. Use fewer inputs. The limit is 128000",
        128000,
        None,
    ),
    ("prompt too long; exceeded max context length by 4000 tokens", None, None),
    ("invalid params, context window exceeds limit (2013)", None, None),
    ("HTTP 400: exceeds the maximum context length of 131072", 131_072, None),
    # no figures
    ("Input is too long for requested model.", None, None),
    ("Your messages have too many tokens for this model.", None, None),
    ("messages are too long for this model", None, None),
    ("Prompt exceeds max length", None, None),
    ("context size has been exceeded", None, None),
    ("Please reduce the length of the messages or completion.", None, None),
    ("Please shorten your prompt; it surpasses the model's token limit.", None, None),
    ("The tokens in the prompt, images included, exceed the maximum context length.", None, None),
    ("Total tokens of image and text exceed max message tokens", None, None),
    ("You have run out of context", None, None),
    # Chinese
    ("输入长度超过模型最大上下文长度限制（131072）", 131_072, None),
    ("请求共150000个token，超出模型上下文窗口131072", 131_072, 150_000),
    ("提示词过长", None, None),
    ("上下文長度超過限制", None, None),
]

# (what a server says, (window, input, output))
TOO_LONG_WITH_OUTPUT: list[tuple[str, tuple[int | None, int | None, int | None]]] = [
    (
        "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease "
        "input length or `max_tokens` and try again",
        (200_000, 190_000, 21_333),
    ),
    (
        "This model's maximum context length is 65,536 tokens. However, you requested 70,000 "
        "tokens (61,000 in the messages, 1,000 in the functions, and 8,000 in the completion).",
        (65_536, 62_000, 8_000),
    ),
    (
        "This endpoint's maximum context length is 262000 tokens. However, you requested about "
        "263390 tokens (658 of text input, 732 of tool input, 262000 in the output).",
        (262_000, 1_390, 262_000),
    ),
    (
        "Requested token count exceeds the model's maximum context length of 131072 tokens. You "
        "requested a total of 140000 tokens: 130000 tokens from the input messages and 10000 "
        "tokens for the completion.",
        (131_072, 130_000, 10_000),
    ),
    (
        "This model's maximum context length is 2048 tokens. However, your request has 8 input "
        "tokens plus 2045 'max_tokens'. Please reduce one or the other.",
        (2048, 8, 2045),
    ),
    (
        # The server counted no further than it had to: 134145 is a bound, not a size.
        "This model's maximum context length is 262144 tokens. However, you requested 128000 "
        "output tokens and your prompt contains at least 134145 input tokens, for a total of at "
        "least 262145 tokens.",
        (262_144, None, 128_000),
    ),
    (
        "'max_tokens' is too large: 100000. This model's maximum context length is 8192 tokens "
        "and your request has 24 input tokens (100000 > 8192 - 24).",
        (8192, 24, 100_000),
    ),
    (
        "You passed 4000 input tokens and requested 1024 output tokens. However, the model's "
        "context length is only 4096 tokens.",
        (4096, 4000, 1024),
    ),
    (
        "`inputs` tokens + `max_new_tokens` must be <= 8192. Given: 7204 `inputs` tokens and 2047 "
        "`max_new_tokens`",
        (8192, 7204, 2047),
    ),
    ("prompt (7,000 tokens) + max_tokens (4,000) > 8,192", (8192, 7000, 4000)),
    (
        "Prompt tokens (7000) plus completion tokens (2000) exceed context length 8192",
        (8192, 7000, 2000),
    ),
    (
        "The sum of input tokens and max_tokens exceeds the model's context window.",
        (None, None, None),
    ),
    (
        "input and maximum output tokens (5000) exceeded the context window limit (4096)",
        (None, None, None),
    ),
    ("max_tokens (100000) exceeds the context window (8192)", (8192, None, 100_000)),
    ("输入长度与max_tokens之和超过模型上下文长度 32768", (32_768, None, None)),
]

TOO_MANY_BYTES = [
    (413, ""),
    (413, "413 status code (no body)"),
    (413, "Payload Too Large"),
    (None, "413 Content Too Large"),
    (None, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
    (
        413,
        "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n"
        "<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>nginx/1.24.0"
        "</center>\r\n</body>\r\n</html>\r\n",
    ),
    (413, wrapped("Request exceeds the maximum allowed number of bytes", code="request_too_large")),
    (400, "Request payload size exceeds the limit: 20971520 bytes."),
    (400, "PayloadTooLargeError: request entity too large"),
    (413, "Failed to buffer the request body: length limit exceeded"),
    (400, "Invalid 'messages[1].content': string too long. Expected at most 1048576 characters"),
]

SOMETHING_ELSE = [
    # the machine, the network
    (None, "[Errno 36] File name too long: 'aaaa'"),
    (None, "OSError: [Errno 90] Message too long"),
    (500, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
    (500, "internal error computing context length"),
    (500, "CUDA out of memory. Tried to allocate 20.00 MiB"),
    (503, "upstream connect error or disconnect/reset before headers"),
    (400, "Request timed out: exceeded maximum time of 600 seconds"),
    (400, "Maximum number of retries exceeded for request"),
    (431, "Request Header Fields Too Large"),
    (414, "414 Request-URI Too Large"),
    # keys, quotas, pace, money
    (401, "token expired"),
    (400, "invalid token"),
    (400, "Unexpected token < in JSON at position 0"),
    (413, "Request too large on tokens per min (TPM): Limit 30000, Requested 30601"),
    (None, "Error code: 429 - {'error': {'message': 'prompt is too long for this minute'}}"),
    (429, "prompt is too long: 210000 tokens > 200000 maximum"),
    (402, "Prompt tokens limit exceeded: 230799 > 91442. Create a key with a higher limit"),
    (403, "the input exceeds the context window of your plan"),
    (400, "Too many tokens, please wait before trying again."),
    (400, "You have exceeded your monthly token limit"),
    (200, "Daily token limit exceeded Used: 3056133, Limit: 3000000"),
    (400, "This request requires more credits, or fewer max_tokens"),
    (400, "请求过于频繁，超过每分钟 token 频率限制"),
    # the output by itself
    (400, "max_tokens: 128001 > 64000, which is the maximum allowed number of output tokens"),
    (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"),
    (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    (400, "`max_tokens` must be greater than `thinking.budget_tokens`."),
    (400, "max_completion_tokens must be at most 16384, which is less than the context_window"),
    (
        422,
        '{"detail":[{"loc":["max_tokens"],"msg":"Input should be less than or equal to 32000"}]}',
    ),
    # limits of other things
    (400, "tool name too long"),
    (400, "The length of the tool name cannot exceed 64."),
    (400, "Tool description exceeds the maximum length of 1024"),
    (400, "Invalid 'tools[13].function.description': string too long. Expected at most 1024"),
    (400, "Invalid 'messages[3].tool_calls[0].id': string too long. Expected at most 40"),
    (400, "The tool's input is too large"),
    (400, "content too long for field title"),
    (400, "Input too long for field 'username' (maximum 64)"),
    (400, "messages.2.content.1.image: image exceeds 5 MB maximum: 6500712 bytes > 5242880 bytes"),
    (400, "image dimensions exceed max allowed size for many-image requests: 2000 pixels"),
    (400, "The PDF has too many pages: a maximum of 100 PDF pages may be provided"),
    (400, "too many tools: maximum is 128"),
    (400, "A maximum of 4 blocks with cache_control may be provided. Found 5."),
    (400, "The maximum number of messages in a conversation is 1000"),
    (400, "Input should have at most 100000 items"),
    (400, "文件名过长"),
    (400, "输入的标题过长"),
    # a tool's own limit
    (None, "the file (30000 tokens) exceeds the maximum of 25000 tokens; use offset and limit"),
    (None, 'tool "search": response (34034 tokens) exceeds maximum allowed tokens (25000)'),
    # the shape of the request
    (400, "prompt must not contain special tokens"),
    (400, "messages: at least one message is required"),
    (400, "This model does not support a context window of 1M tokens"),
    (400, "Invalid signature in thinking block. The block is bound to a different conversation."),
    (400, "Prompt contains content that violates our policy"),
    (400, "Rejected. Possible causes: input exceeds the maximum context length, or bad parameters"),
    (400, ""),
]


@pytest.mark.parametrize(("message", "limit", "size"), TOO_LONG)
def test_input_too_long_in_many_words(message: str, limit: int | None, size: int | None) -> None:
    expected = Overflow("input", limit, size)
    assert classify_text(400, message) == expected
    assert classify_text(400, wrapped(message)) == expected
    assert (
        classify_text(None, f"Error code: 400 - {{'error': {{'message': {message!r}}}}}")
        == expected
    )


@pytest.mark.parametrize(("message", "figures"), TOO_LONG_WITH_OUTPUT)
def test_output_reservation_too_large(
    message: str, figures: tuple[int | None, int | None, int | None]
) -> None:
    expected = Overflow("input_plus_output", *figures)
    assert classify_text(400, message) == expected
    assert classify_text(400, wrapped(message)) == expected


@pytest.mark.parametrize(("status", "body"), TOO_MANY_BYTES)
def test_body_too_large(status: int | None, body: str) -> None:
    assert classify_text(status, body) == Overflow("bytes")


@pytest.mark.parametrize(("status", "body"), SOMETHING_ELSE)
def test_something_else(status: int | None, body: str) -> None:
    assert classify_text(status, body) is None
    if not body.startswith("{"):
        assert classify_text(status, wrapped(body)) is None


def test_input_that_fills_the_window_alone_is_not_helped_by_a_smaller_reservation() -> None:
    text = "input length and `max_tokens` exceed context limit: 210000 + 8000 > 200000"
    assert classify_text(400, text) == Overflow("input", 200_000, 210_000, 8_000)


def test_negative_reservation_means_a_prompt_longer_than_the_window() -> None:
    assert classify_text(400, "max_tokens must be at least 1, got -186.") == Overflow("input")
    assert classify_text(400, "max_tokens must be at least 1, got 0.") is None


@pytest.mark.parametrize("status", [200, 400, 413, 422, 500, None])
def test_words_decide_whatever_the_status(status: int | None) -> None:
    found = classify_text(status, "the request exceeds the available context size")
    assert found == Overflow("input")


@pytest.mark.parametrize(
    "code",
    [
        "context_length_exceeded",
        "model_max_prompt_tokens_exceeded",
        "exceed_context_size_error",
        "ContextWindowExceededError",
        "prompt_too_long",
        "tokens_limit_reached",
    ],
)
def test_code_is_enough(code: str) -> None:
    assert classify_text(400, wrapped("The request was refused.", code=code)) == Overflow("input")
    with_figures = wrapped("At most 4096 tokens, and there are 5141.", code=code)
    assert classify_text(400, with_figures) == Overflow("input", 4096, 5141)


def test_figures_in_fields() -> None:
    body = wrapped("exceeds the context size", code=400, n_prompt_tokens=5141, n_ctx=4096)
    assert classify_text(400, body) == Overflow("input", 4096, 5141)


def test_figure_of_absurd_length_is_no_figure() -> None:
    assert classify_text(400, "prompt is too long: " + "9" * 6000) == Overflow("input")


def test_error_is_read_from_its_body_or_else_its_message() -> None:
    said = "prompt is too long: 210000 tokens > 200000 maximum"
    expected = Overflow("input", 200_000, 210_000)
    assert classify(ProviderError("refused", status=400, body=wrapped(said))) == expected
    assert classify(ProviderError(said, status=400)) == expected
    assert classify(ProviderBusyError("failed", status=500, body=said)) == expected
    assert classify(ProviderBusyError(said, status=429)) is None
    assert classify(ProviderError(said, status=400, body="invalid model")) is None


def test_stop_reasons() -> None:
    assert classify_stop("model_context_window_exceeded") == Overflow("input")
    for reason in ("end_turn", "max_tokens", "tool_use", "refusal", "pause_turn", ""):
        assert classify_stop(reason) is None


def test_stop_reason_in_a_body() -> None:
    body = {"type": "message", "content": [], "stop_reason": "model_context_window_exceeded"}
    assert classify_text(200, json.dumps(body)) == Overflow("input")
    assert classify_text(200, json.dumps(body | {"stop_reason": "end_turn"})) is None


@pytest.mark.parametrize(
    "piece",
    [
        "x",
        " ",
        "1,000 ",
        "input tokens ",
        "max_input_",
        "max_tokens ",
        '{"',
        '{"a":"',
        "\\",
        "\ufdfa",
    ],
)
def test_a_megabyte_takes_no_time(piece: str) -> None:
    body = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    seconds = []
    for _ in range(3):  # the first compiles the rules, and the machine may be busy
        start = time.process_time()
        classify_text(400, body)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.2


def recorded_errors() -> list[dict[str, object]]:
    path = SHARED_DATA / "overflow_errors.jsonl"
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [record for record in records if not record.get("ambiguous")]


def test_recorded_errors_of_many_vendors() -> None:
    records = recorded_errors()
    if not records:
        pytest.skip("the collected error bodies are not here")
    for record in records:
        status, body = record["status"], record["body"]
        assert status is None or isinstance(status, int)
        assert isinstance(body, str)
        found = classify_text(status, body)
        assert (found is not None) == record["is_overflow"], body
        if found is not None and record["kind"] == "input_plus_output":
            alone = found.kind == "input" and found.size is not None and found.requested_output
            assert found.kind == "input_plus_output" or alone, body
