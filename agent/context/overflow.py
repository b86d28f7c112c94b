"""Does an error mean "the prompt is too long"? The one place that decides it.

Every vendor behind a compatible URL has words of its own, so the rules below are
written for what such a sentence says (the input, something that exceeds, a window),
not for one vendor's exact text; the vendors named beside a rule are those whose
words it was drawn from. The rules are tried in this order, and the first decides:

1. refusals that only sound alike: rate limits, quotas, billing, waiting;
2. input and output reservation together exceed the window;
3. an output reservation that is wrong by itself;
4. the input exceeds the context window, in so many words;
5. limits of something else: images, files, tools, fields of a form;
6. the input is too long, in looser words;
7. the request body is too large in bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from agent.context.error_text import statements
from agent.errors import ProviderError

Kind: TypeAlias = Literal["input", "input_plus_output", "bytes"]


@dataclass(frozen=True)
class Overflow:
    """What a server said about a prompt that was too long.

    ``kind`` says what helps:

    - ``input``: the input alone does not fit; make it smaller;
    - ``input_plus_output``: the input fits and the output reservation does not;
      asking for fewer output tokens (``limit - size`` where both are known) is enough;
    - ``bytes``: the request body is too large, whatever its tokens; make it smaller.

    ``limit`` (the window, or the most input that is allowed), ``size`` (the input)
    and ``requested_output`` are tokens as the text states them, ``None`` where it
    does not. A lower bound ("at least 134145 input tokens") is not a size. For
    ``bytes`` all three are ``None``.
    """

    kind: Kind
    limit: int | None = None
    size: int | None = None
    requested_output: int | None = None


# Words the rules are built of; a rule names them in angle brackets.
_WORDS = {
    "NUM": r"(?:\d{1,3}(?:[,_.' ]\d{3}){1,4}(?!\d)|\d{1,12})[kKM]?(?![a-zA-Z0-9_])",
    "GAP": r"[^\n]{0,60}?",
    "WINDOW": (
        r"(?:context[ _-]*(?:window|length|size|limit|budget|capacity)|n_ctx\b"
        r"|max_(?:seq|model)\w{0,12}_len\w{0,12}|max_(?:prompt|input|context|message|sequence)\w{0,12}"
        r"|max(?:imum)?(?: allowed| supported)? (?:context\b|(?:prompt|input|sequence|message"
        r"|model) (?:length|tokens?|size|window|limit))|model(?:'s)? context\b"
        r"|(?:model(?:'s)?|input|prompt) (?:max(?:imum)? )?(?:tokens? limit|sequence length))"
    ),
    "EXCEED": (
        r"(?:exceed(?:s|ed|ing)?\b|surpass(?:es|ed)?\b|overflow(?:s|ed)?\b|overr[au]ns?\b"
        r"|too (?:long|large|big|many)\b|(?:long|larg|great|bigg|high)er than|more(?: \w+)? than"
        r"|(?:beyond|above|over) (?:the|its|this|your)\b|(?:not|n't) fit\b)"
    ),
    "SUBJECT": r"\b(?:prompt|(?<!tool )input|request|messages?|conversation|history|context)\b",
    "MAX_TOKENS": r"\bmax_(?:completion_|output_|new_)?tokens\b[`'\"]?",
    "OUTPUT": (
        r"(?:(?:the )?[`'\"]?(?:max_\w{0,12}tokens\b"
        r"|(?:(?:requested|max(?:imum)?) )?(?:output|completion)\b)(?: tokens?)?[`'\"]?)"
    ),
}


@cache
def _compiled(rule: str) -> re.Pattern[str]:
    # On first use: compiling them all takes longer than starting the program should.
    while name := re.search(r"<([A-Z_]+)>", rule):
        rule = rule.replace(name[0], _WORDS[name[1]])
    return re.compile(rule, re.IGNORECASE | re.MULTILINE)


def _search(rule: str, text: str) -> re.Match[str] | None:
    return _compiled(rule).search(text)


def _rule(*alternatives: str) -> str:
    return "|".join(alternatives)


# Statuses that speak of the caller, the route or the pace, never of a prompt's length.
_OTHER_STATUSES = frozenset({401, 402, 403, 404, 405, 408, 409, 414, 429, 431})

_OTHER_REFUSAL = _rule(
    # Everyone's rate limits: OpenAI and Groq state theirs in tokens, Groq with a 413.
    r"rate[ _-]?limit|\bper[ _-]?(?:min(?:ute)?|second|hour|day|month)\b|\b[TR]P[SMD]\b",
    r"too many (?:concurrent )?requests|throttl|overloaded",
    # Bedrock's throttling: "Too many tokens, please wait before trying again."
    r"please wait|before trying again",
    r"quota|billing|payment|credits?\b|\bafford|insufficient (?:balance|funds)",
    r"\b(?:daily|weekly|monthly|hourly)\b[^\n]{0,20}\blimit|usage limit|limit (?:of|for) your plan",
    r"速率|频率|頻率|限流|并发|余额|餘額|充值|欠费|配额|配額|额度|額度",
    # A server that lists what may be wrong has not said what is.
    r"possible (?:causes?|reasons?)",
)

# Groups: limit (the window), size (the input) and output (the reservation), where stated.
_INPUT_PLUS_OUTPUT = (
    # Anthropic says "... exceed context limit: 188240 + 21333 > 200000"
    r"(?:context|<MAX_TOKENS>)<GAP>(?P<size><NUM>) ?\+ ?(?P<output><NUM>)"
    r" ?>=? ?(?P<limit><NUM>)",
    # vLLM says "... length is 2048 tokens. ... 8 input tokens plus 2045 'max_tokens'"
    r"<WINDOW> (?:is|of) (?P<limit><NUM>) tokens[^\n]{0,80}?"
    r"(?P<size><NUM>) input tokens (?:plus|and|\+) (?P<output><NUM>)",
    # vLLM says "... requested 1000 output tokens and your prompt contains 3500 input tokens";
    # "at least 3500" there is the window less the reservation, not the input
    r"<WINDOW> (?:is|of) (?P<limit><NUM>) tokens[^\n]{0,40}?requested (?P<output><NUM>) output"
    r" tokens and your prompt contains (?:at least|(?P<size><NUM>))",
    # vLLM says "'max_tokens' is too large: 100000. ... 24 input tokens (100000 > 8192 - 24)"
    r"input tokens \((?P<output><NUM>) > (?P<limit><NUM>) - (?P<size><NUM>)\)",
    # vLLM says "You passed 4000 input tokens and requested 1024 output tokens. However, the
    # model's context length is only 4096 tokens"
    r"(?P<size><NUM>) input tokens and requested (?P<output><NUM>) output tokens"
    r"<GAP><WINDOW> is (?:only )?(?P<limit><NUM>)",
    # TGI and Together say "`inputs` tokens + `max_new_tokens` must be <= 8192. Given:
    # 6204 `inputs` tokens and 2047 `max_new_tokens`"
    r"inputs?\W+tokens \+ \W?max_new_tokens\W+must be (?:<=|less than) (?P<limit><NUM>)"
    r"[^\n]{0,20}?given:? (?P<size><NUM>)[^\n]{0,20}? and (?P<output><NUM>)",
    # in general, "prompt tokens (9000) plus max_tokens (4000) exceed the window (8192)"
    r"(?:input|prompt|messages?)(?: tokens?| length)?\W{1,3}(?P<size><NUM>)\W{1,3}"
    r"(?:tokens?\W{1,3})?(?:\+|plus|and|with) <OUTPUT>\W{1,3}(?P<output><NUM>)"
    r"[^\n]{0,15}?(?:<EXCEED>|>|must be)<GAP>(?P<limit><NUM>)",
    # in general, without figures, "the sum of input tokens and max_tokens exceeds the window"
    r"(?:input|prompt|messages?)(?: tokens?| length)?[`'\"]? (?:\+|plus|and|with) <OUTPUT>"
    r"<GAP>(?:<EXCEED>|>|must be)<GAP>"
    r"(?:<WINDOW>|limit|<=?)(?:\W{1,3}(?:of |is )?(?P<limit><NUM>))?",
    r"(?:输入|輸入|prompt)[^\n]{0,10}?(?:和|与|與|加|\+) ?(?:max_\w{0,12}tokens|输出|輸出)"
    r"[^\n]{0,20}?(?:超过|超過|超出|大于)(?:[^\d\n]{0,20}(?P<limit><NUM>))?",
    # the reservation alone, "max_tokens (100000) exceeds the context window (8192)"
    r"<MAX_TOKENS>\W{0,3}(?P<output><NUM>)?[^\n.;]{0,30}?<EXCEED>"
    r"[^\n.;]{0,40}?\bcontext (?:window|length|size|limit)(?:\W{1,3}(?:of )?(?P<limit><NUM>))?",
)

# OpenAI, Azure, DeepSeek, OpenRouter and SGLang take the request apart: "you requested
# 8213 tokens (6683 in the messages, 730 in the functions, and 800 in the completion)".
_TAKEN_APART = r"<WINDOW> (?:is|of) (?P<limit><NUM>) tokens<GAP>requested(?P<rest>[^\n]*)"
_PART = r"(?P<tokens><NUM>) (?:tokens? )?(?:of|in|for|from) (?:the |your )?(?P<what>\w+)"
_OUTPUT_PARTS = frozenset({"output", "completion", "response", "generation", "max_tokens"})

# vLLM, older: the prompt fills the window, so what is left for the answer is negative.
_NO_ROOM = r"<MAX_TOKENS><GAP>(?:at least|positive|greater than|>)<GAP>-\d"

_OUTPUT_LIMIT = _rule(
    # Anthropic: "max_tokens: 128001 > 64000, which is the maximum allowed number of output
    # tokens"; DeepSeek: "the valid range of max_tokens is [1, 8192]"; Groq, Volcengine.
    r"<MAX_TOKENS>[^\n.;]{0,60}?(?:must|should|valid\b|at most|<EXCEED>|>)",
    r"(?:max(?:imum)?|at most|up to|limit)(?: \w+){0,3} (?:output|completion) tokens",
)

_INPUT_EXCEEDS_WINDOW = _rule(
    # OpenAI, Bedrock, llama.cpp, LM Studio, Mistral, Together, Moonshot, Ollama, MLX
    r"<EXCEED><GAP><WINDOW>",
    # MiniMax says "context window exceeds limit", LM Studio "loaded with context length of
    # only 32768 tokens, which is not enough"
    r"<WINDOW><GAP>(?:exceed(?:s|ed)\b|overflow|reached|exhausted|is full|too small"
    r"|(?:not |in)(?:enough|sufficient))",
    # xAI and OpenAI say "maximum prompt length is 131072 but the request contains 136973 tokens"
    r"<WINDOW>\W{0,3}(?:is|of)?\W{0,3}(?:only )?<NUM><GAP>"
    r"\b(?:but|however|while|whereas|requested|resulted in|contains?|received|got|given)\b",
    # OpenAI's code is context_length_exceeded, Copilot's model_max_prompt_tokens_exceeded,
    # llama.cpp's exceed_context_size_error, LiteLLM's ContextWindowExceededError
    r"(?<!tool_)(?:context|prompt|input)(?:_?(?:window|length|size|tokens|limit))?"
    r"_?(?:exceeded|overflow|too_(?:long|large))",
    r"exceed\w{0,3}_context",
)

_OTHER_LIMIT = _rule(
    r"\b(?:image|video|audio|media|pdf|document|attachment|file|ur[il])s?\b[^\n,;]{0,60}?"
    r"(?:<EXCEED>|dimension|pixels)",
    r"\btool(?:s?[\[.]\S{1,60}|s?(?:'s)? (?:name|description|schema|result|output|input)s?"
    r"|\w{0,12}spec\S{0,40})[^\n]{0,80}?(?:<EXCEED>|must|cannot|maximum)",
    r"(?:too (?:long|large|big)|maximum length)[^\n]{0,30}? (?:for|of) (?:the |a )?['\"]?(?:\w+ )?"
    r"(?:field|column|parameter|property|attribute|title|label)\b",
    r"文件名|工具名|图片|圖片|图像|字段|标题|標題|用户名",
)

_INPUT_TOO_LONG = _rule(
    # Anthropic says "prompt is too long", Bedrock "Input is too long for requested model."
    r"(?:\b(?:prompt|conversation|history|messages|context)|(?<!tool )\binput)\b"
    r"(?: (?:tokens?|text|length|size|content))?(?: \([^)\n]{0,60}\))?"
    r"(?: (?:is|are|was|were|has become))?(?: (?:far|much|way))? too (?:long|large|big)\b",
    # Zhipu says "Prompt exceeds max length", Copilot "prompt token count of 514673 exceeds the
    # limit of 128000"
    r"(?:\bprompt|(?<!tool )\binput)s?\b['\"]?(?: (?:text|length|size|tokens?|count|of|is|are|has"
    r"|<NUM>|\([^)\n]{0,40}\))){0,8} <EXCEED>[^\n]{0,40}?\b(?:max(?:imum)?|limit|allowed)\b",
    # Gemini says "the input token count is 1198764 but model only supports up to 1048576"
    r"<SUBJECT><GAP>\b(?:tokens|token (?:count|length|size|number))\b<GAP>"
    r"(?:<EXCEED>|\b(?:but|however|whereas)\b)<GAP>"
    r"\b(?:limit|max|allow|support|accept|only\b|at most|up to)",
    r"\b(?:tokens|token count)\b<GAP><SUBJECT><GAP><EXCEED><GAP>\b(?:limit|max|allow|support)",
    # Cohere says "too many tokens: size limit exceeded by 11326 tokens. Try ... fewer inputs."
    r"too many (?:input|prompt|context) tokens",
    r"too many tokens[^\n]{0,120}?\b(?:prompt|inputs?|request|messages|context)\b",
    r"<SUBJECT>[^\n]{0,40}?too many tokens",
    # Groq says "Please reduce the length of the messages or completion."
    r"reduce (?:the )?(?:length|size|number of tokens) (?:of|in) (?:the |your )?<SUBJECT>",
    r"(?:shorten|shorter) (?:the |your )?(?:prompt|input|messages|conversation)\b",
    # GitHub Models says "Request body too large for gpt-4o model. Max size: 8000 tokens."
    r"tokens?_limit_(?:reached|exceeded)|request<GAP>too (?:long|large)<GAP><NUM> tokens",
    r"\btoken limit (?:has been |was )?exceeded|model max length exceeded",
    r"exceed(?:s|ed)? (?:the )?(?:(?:model|max(?:imum)?|input)(?:'s)? )?token limit",
    # TGI says "`inputs` must have less than 4096 tokens", DashScope "Range of input length
    # should be [1, 983616]", SiliconFlow "length of prompt_tokens (68957) must be less than
    # max_seq_len (65536)"
    r"\b(?:inputs?|prompt)\W{1,3}(?:[^)\n]{0,20}\) )?(?:must|should|may)[^\n]{0,40}?<NUM> tokens",
    r"\b(?:inputs?|prompt)\W{1,3}tokens? (?:must|should|may)[^\n]{0,40}?<NUM>",
    r"\btokens of context\b<GAP>\b(?:but|however|<EXCEED>)|r[ua]n(?:ning)? out of context",
    r"\b(?:input|prompt)[ _](?:tokens?|length)\b[^\n]{0,20}?(?:must|should|may|cannot)\b"
    r"[^\n]{0,30}?(?:<WINDOW>|(?:than|to|most|\[\d,|<=?|exceed) ?<NUM>(?! ?(?:char|item|byte)))",
    # Chinese vendors: 输入长度超过限制, 超出模型最大上下文, 提示词过长
    r"(?:输入|輸入|提示词|提示詞|对话|對話|上下文|prompt|tokens?)[^\n]{0,20}?"
    r"(?:过长|過長|太长|太長|超长|超長|超过|超過|超出|超限|已满|大于)",
    r"(?:超过|超過|超出|大于)[^\n]{0,20}?(?:上下文|最大长度|最大長度|最大输入|token)",
    r"(?:最大|最多|上限)[^\n]{0,20}?token[^\n]{0,10}?(?:输入|輸入|请求)[^\n]{0,8}?\d",
)

_BODY_TOO_LARGE = _rule(
    # nginx and other proxies; Anthropic's and Express's codes
    r"\b(?:request(?: entity| body| size| payload)?|payload|content)(?: is)? too (?:large|big)\b",
    r"request_too_large|entity\.too\.large|request body[^\n]{0,20}?length limit exceeded",
    # Anthropic says "Request exceeds the maximum size", Gemini "Request payload size exceeds
    # the limit: 20971520 bytes"
    r"\b(?:request|payload|body)\b(?: \w+){0,3}? exceed(?:s|ed)? [^\n]{0,40}?"
    r"(?:size|limit|bytes|[MG]i?B\b)",
    # Bedrock; OpenAI's limit on the characters of one message
    r"'body' failed to satisfy constraint: member must have length",
    r"'(?:messages|input)\[\d+\](?:\.content(?:\[\d+\]\.text)?|\.output)?': string too long",
)

# Whether a match of the rule means that the input is too long, or that something else is.
_IN_ORDER = (
    (_NO_ROOM, True),
    (_OUTPUT_LIMIT, False),
    (_INPUT_EXCEEDS_WINDOW, True),
    (_OTHER_LIMIT, False),
    (_INPUT_TOO_LONG, True),
)

_STOPPED = re.compile(r"(?:model_)?context_(?:window|length)_exceeded")


def classify(error: ProviderError) -> Overflow | None:
    """What ``error`` says about the prompt's length; ``None`` if it is about something else."""
    return classify_text(error.status, error.body or str(error))


def classify_stop(stop_reason: str) -> Overflow | None:
    """The overflow that a stop reason reports, as Anthropic's and Z.ai's servers do."""
    return Overflow("input") if _STOPPED.fullmatch(stop_reason) else None


def classify_text(status: int | None, body: str) -> Overflow | None:
    """What a response says about the prompt's length; ``None`` if it is about something else.

    ``status`` is the HTTP status, ``None`` when it is not known (one at the head of
    the text is then read). ``body`` is the text as it came: JSON, a Python ``repr``
    of it, JSON inside of JSON, HTML or prose (see :mod:`agent.context.error_text`).
    """
    text = statements(body)
    if status in {None, 200} and (stated := _HTTP_STATUS.search(text[:80])):
        status = int(stated["status"])
    if status in _OTHER_STATUSES or _search(_OTHER_REFUSAL, text):
        return None
    if both := _input_plus_output(text):
        return both
    for rule, is_input in _IN_ORDER:
        if found := _search(rule, text):
            return _input(text, found) if is_input else None
    if status == 413 or _search(_BODY_TOO_LARGE, text):
        return Overflow("bytes")
    return None


# -- reading the figures --

_HTTP_STATUS = re.compile(
    r"(?:^|(?:http(?:/[\d.]+)?|status|code|error)\W{0,3}|<)(?P<status>[45]\d\d)\b(?! tokens)",
    re.IGNORECASE | re.MULTILINE,
)
# "exceeded by 11326 tokens" is a difference and "at least 4096" a bound: neither is a count.
_COUNT = _rule(
    r"(?<![a-zA-Z0-9_.\-/#])(?<!\d:)(?<!by )(?<!by about )(?<!at least )(?P<tokens><NUM>)"
    r"(?![-/%]|\.\d| ?(?:bytes|[kmg]i?b\b|char|second|ms\b|pixel|image))"
)
_LIMIT_BEFORE = re.compile(
    r"(?:limit|max|context|window|n_ctx|allow|support|accept|only|most|up to|than|<=?|\[\d+, ?"
    r"|限|最大|上下文|超过|超過|超出)[^\d\n]{0,30}$",
    re.IGNORECASE,
)
_LIMIT_FIELD = re.compile(
    r"^(?:n_ctx|max_model_len|(?:max_)?context_(?:length|window|size)|max_(?:input|prompt)_tokens)"
    r"=(\d{1,12})$",
    re.MULTILINE,
)
_SIZE_FIELD = re.compile(r"^(?:n_)?(?:prompt|input)_tokens=(\d{1,12})$", re.MULTILINE)
# A lone figure of this form is the vendor's code of the error, as in MiniMax's "(2013)".
_VENDOR_CODE = re.compile(r"\(\d{4}\)\W*$")
# Smaller figures are indices, versions and bounds ("should be [1, 983616]").
_SMALLEST_COUNT = 100
_STATEMENT_CHARS = 300


def _tokens(figure: str | None) -> int | None:
    """``1,048,576``, ``200_000`` or ``128k`` as a number."""
    if figure is None:
        return None
    scale = {"k": 1_000, "m": 1_000_000}.get(figure[-1].lower(), 1)
    return int(re.sub(r"\D", "", figure)) * scale


def _input_plus_output(text: str) -> Overflow | None:
    limit: int | None
    size: int | None
    output: int | None
    if (apart := _search(_TAKEN_APART, text)) and (stated := _parts(apart["rest"])):
        limit = _tokens(apart["limit"])
        size, output = stated
    else:
        matches = (_search(rule, text) for rule in _INPUT_PLUS_OUTPUT)
        found = next((match.groupdict() for match in matches if match), None)
        if found is None:
            return None
        limit, size, output = (_tokens(found.get(name)) for name in ("limit", "size", "output"))
    if limit is not None and size is not None:
        if size >= limit:
            return Overflow("input", limit, size, output)
        if output is not None and size + output < limit:
            # Figures that do not add up to an overflow were read wrongly.
            return Overflow("input_plus_output")
    return Overflow("input_plus_output", limit, size, output)


def _parts(text: str) -> tuple[int, int] | None:
    """Input and output tokens of a request that was taken apart, if the output was named."""
    size = output = 0
    for part in _compiled(_PART).finditer(text):
        tokens = _tokens(part["tokens"]) or 0
        if part["what"].lower() in _OUTPUT_PARTS:
            output += tokens
        else:
            size += tokens
    return (size, output) if output else None


def _input(text: str, found: re.Match[str]) -> Overflow:
    """An input overflow with its figures.

    They are read from named fields, or where the match is, or (a match of a mere
    code) from any sentence.
    """
    start = max(text.rfind("\n", 0, found.start()) + 1, found.start() - _STATEMENT_CHARS)
    line_end = text.find("\n", found.end())
    end = min(line_end if line_end >= 0 else len(text), found.end() + _STATEMENT_CHARS)
    limit, size = _figures(text[start:end])
    if limit is None and size is None:
        limit, size = _figures("\n".join(line for line in text.split("\n") if " " in line))
    if field := _LIMIT_FIELD.search(text):
        limit = int(field[1])
    if field := _SIZE_FIELD.search(text):
        size = int(field[1])
    return Overflow("input", limit, size)


def _figures(statement: str) -> tuple[int | None, int | None]:
    """Limit and size in one statement.

    The largest of several counts is the input, for that is the complaint.
    """
    plain = _HTTP_STATUS.sub("", statement)
    counts: dict[int, bool] = {}
    for count in _compiled(_COUNT).finditer(plain):
        tokens = _tokens(count["tokens"]) or 0
        if tokens >= _SMALLEST_COUNT:
            before = plain[max(0, count.start() - 50) : count.start()]
            counts.setdefault(tokens, _LIMIT_BEFORE.search(before) is not None)
    if len(counts) == 1:
        [(tokens, is_limit)] = counts.items()
        if _VENDOR_CODE.search(plain):
            return None, None
        return (tokens, None) if is_limit else (None, tokens)
    size = max(counts, default=None)
    others = [tokens for tokens in counts if tokens != size]
    limits = others if len(others) == 1 else [tokens for tokens in others if counts[tokens]]
    return (limits[0] if limits else None), size
