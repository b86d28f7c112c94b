"""Settings: flag, else environment variable, else the user's file, else default.

Nothing is read from the working folder: a repository that was only cloned must not
be able to choose the server, the key or what runs unasked.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from agent.errors import ConfigError
from agent.folders import shown_path, user_folder

Approval: TypeAlias = Literal["ask", "read-only", "auto-edit", "yolo"]

CONFIG_VARIABLE = "AGENT_CONFIG"


@dataclass(frozen=True)
class ModelSettings:
    """What a user states of one model: limits in tokens, prices in USD per million tokens."""

    context_window: int | None = None
    max_output_tokens: int | None = None
    input_price: float | None = None
    output_price: float | None = None


@dataclass(frozen=True)
class Settings:
    """All settings of a run.

    ``max_input_tokens`` is the budget of a request (``None``: derived from the model's
    window, which is ``context_window`` or what is known of it). ``retry_limit_seconds`` is
    how long a busy server is asked again when nobody watches (one-shot mode);
    ``no_bytes_seconds`` and ``no_content_seconds`` how long a server may be silent within
    an answer. ``sandbox`` says whether commands run in one (``None``: where one works);
    ``allow`` holds commands that need no question, and comes from the command line alone.
    ``weights`` is the file of ``--local``. ``models`` holds what the user states
    of models, by id. ``sources`` says for every key where its value came from: ``flag --model``,
    ``environment AGENT_MODEL``, the file's path, or ``default``.
    """

    model: str = "claude-sonnet-5-5"
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    auth_token: str | None = field(default=None, repr=False)
    max_input_tokens: int | None = None
    context_window: int | None = None
    keep_recent_turns: int = 5
    max_output_tokens: int = 32_000
    max_requests: int = 100
    approval: Approval = "ask"
    sandbox: bool | None = None
    allow: tuple[str, ...] = ()
    system_file: Path | None = None
    no_system: bool = False
    transcripts: Path = Path(".transcripts")
    tool_timeout_seconds: float = 120.0
    rescue_interval_seconds: float = 60.0
    max_rescues: int = 5
    retry_limit_seconds: float = 300.0
    no_bytes_seconds: float = 60.0
    no_content_seconds: float = 300.0
    show_thinking: bool = True
    plain: bool = False
    vi_mode: bool = False
    bell: bool = True
    summary_model: str | None = None
    background_summary: bool = False
    weights: Path | None = None
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere: keys, and the password in a URL."""
        password = urlsplit(self.base_url or "").password
        return tuple(filter(None, (self.api_key, self.auth_token, password)))


@dataclass(frozen=True)
class _Rule:
    """What values a key allows.

    ``check`` takes a value of the right type and returns the setting; ``from_text``
    makes such a value of text (a variable, or a flag that was not parsed yet). Both
    raise TypeError or ValueError. ``allowed`` completes the sentence "... must be ...".
    """

    allowed: str
    check: Callable[[object], object]
    from_text: Callable[[str], object] = str
    secret: bool = False


def _whole_number(minimum: int) -> _Rule:
    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise ValueError
        return value

    return _Rule(f"a whole number of at least {minimum}", check, int)


def _number(minimum: float, what: str, *, above: bool = False) -> _Rule:
    def check(value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise TypeError
        if not math.isfinite(value) or value < minimum or (above and value == minimum):
            raise ValueError
        return float(value)

    return _Rule(f"{what} {'above' if above else 'of at least'} {minimum:g}", check, float)


def _truth() -> _Rule:
    words = {"true": True, "yes": True, "on": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "0": False}

    def from_text(text: str) -> bool:
        if text.lower() not in words:
            raise ValueError
        return words[text.lower()]

    def check(value: object) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value

    return _Rule("true or false", check, from_text)


def _choice(*options: str) -> _Rule:
    def check(value: object) -> object:
        if value not in options:
            raise ValueError
        return value

    return _Rule(f"one of {', '.join(options)}", check)


def _word(allowed: str, *, secret: bool = False) -> _Rule:
    # A header carries these, so a space, a line break or a letter beyond ASCII cannot be meant.
    def check(value: object) -> str:
        if not isinstance(value, str) or not value.isascii():
            raise ValueError
        if not value or not all("!" <= character <= "~" for character in value):
            raise ValueError
        return value

    return _Rule(allowed, check, secret=secret)


def _url() -> _Rule:
    """An HTTP server's address, without its trailing slash.

    Plain HTTP is allowed for any host: local and company servers commonly have no
    certificate. Other schemes are not, nor a query or fragment, to which no path can
    be added.
    """

    def check(value: object) -> str:
        if not isinstance(value, str) or not value.isprintable() or " " in value:
            raise ValueError
        parts = urlsplit(value)
        # ``port`` raises ValueError itself when it is not a port.
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            raise ValueError
        if parts.query or parts.fragment:
            raise ValueError
        return value.rstrip("/")

    return _Rule("an http:// or https:// URL", check)


def _path(allowed: str) -> _Rule:
    return _Rule(allowed, _expanded)


def _expanded(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError
    # expanduser raises RuntimeError where there is no such user, or no home.
    with suppress(RuntimeError):
        return Path(value).expanduser()
    return Path(value)


_COUNT = _whole_number(1)
_PRICE = _number(0, "a price in USD per million tokens")

_RULES: Mapping[str, _Rule] = {
    "model": _word("a model's id, without spaces"),
    "base_url": _url(),
    "api_key": _word("a key, without spaces", secret=True),
    "auth_token": _word("a token, without spaces", secret=True),
    "max_input_tokens": _COUNT,
    "context_window": _COUNT,
    "keep_recent_turns": _whole_number(0),
    "max_output_tokens": _COUNT,
    "max_requests": _COUNT,
    "approval": _choice("ask", "read-only", "auto-edit", "yolo"),
    "sandbox": _truth(),
    "system_file": _path("a file's path"),
    "no_system": _truth(),
    "transcripts": _path("a folder's path"),
    "tool_timeout_seconds": _number(0, "a number", above=True),
    "rescue_interval_seconds": _number(0, "a number"),
    "max_rescues": _whole_number(0),
    "retry_limit_seconds": _number(0, "a number"),
    "no_bytes_seconds": _number(0, "a number", above=True),
    "no_content_seconds": _number(0, "a number", above=True),
    "show_thinking": _truth(),
    "plain": _truth(),
    "vi_mode": _truth(),
    "bell": _truth(),
    "summary_model": _word("the name of a model"),
    "background_summary": _truth(),
}

_MODEL_RULES: Mapping[str, _Rule] = {
    "context_window": _COUNT,
    "max_output_tokens": _COUNT,
    "input_price": _PRICE,
    "output_price": _PRICE,
}

SETTING_KEYS = tuple(_RULES)
"""The keys that flags, variables and the file share; the file may also hold ``[models]``."""

MODEL_KEYS = tuple(_MODEL_RULES)
"""The keys of a ``[models."NAME"]`` table."""

_ANTHROPIC_KEYS = frozenset({"api_key", "auth_token", "base_url"})


def flag_name(key: str) -> str:
    """The flag of a key: ``--max-input-tokens``."""
    return "--" + key.replace("_", "-")


def variable_name(key: str) -> str:
    """The environment variable of a key: ``AGENT_MODEL``, ``ANTHROPIC_API_KEY``."""
    return ("ANTHROPIC_" if key in _ANTHROPIC_KEYS else "AGENT_") + key.upper()


def load_settings(
    flags: Mapping[str, object], environ: Mapping[str, str], config_file: Path | None = None
) -> Settings:
    """The settings that flags, variables and the user's file amount to.

    ``flags`` maps keys of :data:`SETTING_KEYS` to values, ``None`` for a flag that was
    not given. ``config_file`` (or ``AGENT_CONFIG``) replaces the user's file and must
    exist. An empty variable counts as unset; a variable ``AGENT_...`` that is no
    setting is left alone, for it may be another program's. Relative paths are relative
    to the working folder.

    Raises :class:`agent.errors.ConfigError`, in one line that names the place, the key
    and what is allowed.
    """
    # Any: the rules, not the type checker, make each value fit its field.
    values: dict[str, Any] = {}
    sources = dict.fromkeys((*SETTING_KEYS, "models"), "default")
    for source, found in (
        _from_file(environ, config_file),
        *_from_environment(environ),
        *_from_flags(flags),
    ):
        values |= found
        sources |= dict.fromkeys(found, source)
    return Settings(**values, sources=sources)


def require_endpoint(settings: Settings) -> None:
    """Raise :class:`agent.errors.ConfigError` when there is no server to talk to."""
    if settings.api_key or settings.auth_token:
        _require_encryption(settings.base_url)
        return
    if settings.base_url:
        return
    raise ConfigError(
        "no model server is configured: set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or point "
        "--base-url (ANTHROPIC_BASE_URL) at a local server, such as Ollama's "
        "http://localhost:11434, or try --local, a model on this machine"
    )


def _require_encryption(base_url: str | None) -> None:
    """A key goes unencrypted to this machine only."""
    parts = urlsplit(base_url or "")
    host = parts.hostname or ""
    loopback = host == "localhost" or host.endswith(".localhost")
    with suppress(ValueError):  # a name, not an address
        loopback = loopback or ipaddress.ip_address(host).is_loopback
    if parts.scheme == "http" and not loopback:
        raise ConfigError(
            f"the key would be sent to {host} unencrypted: use https:// in base_url, or leave the "
            "key out (unset ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN)"
        )


_Found: TypeAlias = tuple[str, dict[str, object]]
"""A source's name, and the checked values it gave by key."""


def _from_flags(flags: Mapping[str, object]) -> Iterator[_Found]:
    for key, value in flags.items():
        if value is not None:
            rule = _known(key, _RULES, "flags")
            yield f"flag {flag_name(key)}", {key: _checked(rule, value, flag_name(key), text=True)}


def _from_environment(environ: Mapping[str, str]) -> Iterator[_Found]:
    for key, rule in _RULES.items():
        variable = variable_name(key)
        if text := environ.get(variable, "").strip():
            yield f"environment {variable}", {key: _checked(rule, text, variable, text=True)}


def config_path(environ: Mapping[str, str], config_file: Path | None) -> tuple[Path, bool]:
    """The configuration file that counts, and whether it was named and so must exist."""
    given = config_file or environ.get(CONFIG_VARIABLE, "").strip()
    return (_expanded(given), True) if given else (user_folder() / "config.toml", False)


def _from_file(environ: Mapping[str, str], config_file: Path | None) -> _Found:
    path, named = config_path(environ, config_file)
    shown = shown_path(path)
    values: dict[str, object] = {}
    for key, value in _toml(path, shown, must_exist=named).items():
        if key == "models":
            values[key] = _models(value, shown)
        else:
            values[key] = _checked(_known(key, _RULES, shown, "models"), value, f"{shown}: {key}")
    return shown, values


def _toml(path: Path, shown: str, *, must_exist: bool) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if must_exist:
            raise ConfigError(f"{shown}: there is no such configuration file") from error
        return {}
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown}: is not UTF-8 text (at byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        # Beside syntax errors: a number too long to convert, brackets too deep.
        raise ConfigError(f"{shown}: is not valid TOML: {error}") from error


def _models(tables: object, shown: str) -> dict[str, ModelSettings]:
    models: dict[str, ModelSettings] = {}
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise ConfigError(f'{shown}: models must be tables, each headed [models."NAME"]')
    for name, table in tables.items():
        where = f"{shown}: [models.{name!r}]"
        values: dict[str, Any] = {}
        for key, value in table.items():
            if isinstance(value, dict):
                raise ConfigError(f"{where}: holds a table {key!r}; quote a name that has dots")
            values[key] = _checked(_known(key, _MODEL_RULES, where), value, f"{where}: {key}")
        models[name] = ModelSettings(**values)
    return models


def _known(key: str, rules: Mapping[str, _Rule], where: str, *others: str) -> _Rule:
    if key in rules:
        return rules[key]
    import difflib

    keys = [*rules, *others]
    near = difflib.get_close_matches(key, keys, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(keys)}"
    raise ConfigError(f"{where}: unknown key {key!r}; {hint}")


def _checked(rule: _Rule, value: object, where: str, *, text: bool = False) -> object:
    """The setting that a value makes; with ``text``, a string may stand for another type."""
    try:
        return rule.check(rule.from_text(value) if text and isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError) as error:
        given = "" if rule.secret else f", not {_shortened(repr(value))}"
        raise ConfigError(f"{where} must be {rule.allowed}{given}") from error


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
