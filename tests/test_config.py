"""Settings: precedence, sources, every wrong value as one clear line, and the example file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import platformdirs
import pytest

from agent.config import (
    MODEL_KEYS,
    SETTING_KEYS,
    ModelSettings,
    Settings,
    flag_name,
    load_settings,
    require_endpoint,
    variable_name,
)
from agent.errors import ConfigError

REPOSITORY = Path(__file__).parents[1]
EXAMPLE = REPOSITORY / "config.example.toml"

DEFAULTS = {field.name: getattr(Settings(), field.name) for field in fields(Settings)}

# A valid value of every key, as text and as TOML writes it, that is not the default.
OTHER_VALUES: dict[str, tuple[str, str, object]] = {
    "model": ("local:32b", '"local:32b"', "local:32b"),
    "base_url": ("http://localhost:11434/", '"http://localhost:11434/"', "http://localhost:11434"),
    "api_key": ("key-1", '"key-1"', "key-1"),
    "auth_token": ("token-1", '"token-1"', "token-1"),
    "max_input_tokens": ("5000", "5_000", 5000),
    "context_window": ("4096", "4_096", 4096),
    "keep_recent_turns": ("0", "0", 0),
    "max_output_tokens": ("1024", "1024", 1024),
    "max_requests": ("1", "1", 1),
    "approval": ("read-only", '"read-only"', "read-only"),
    "sandbox": ("true", "true", True),
    "system_file": ("prompts/a.md", '"prompts/a.md"', Path("prompts/a.md")),
    "no_system": ("true", "true", True),
    "transcripts": ("logs", '"logs"', Path("logs")),
    "tool_timeout_seconds": ("1.5", "1.5", 1.5),
    "rescue_interval_seconds": ("0", "0", 0.0),
    "max_rescues": ("0", "0", 0),
    "retry_limit_seconds": ("10", "10", 10.0),
    "no_bytes_seconds": ("90", "90", 90.0),
    "no_content_seconds": ("0.5", "0.5", 0.5),
    "show_thinking": ("no", "false", False),
    "plain": ("yes", "true", True),
    "vi_mode": ("on", "true", True),
    "bell": ("no", "false", False),
    "summary_model": ("small-model", '"small-model"', "small-model"),
    "background_summary": ("yes", "true", True),
}

# Values that are refused wherever they stand, as TOML writes them.
WRONG_VALUES = [
    ("model", '""'),
    ("model", '"two words"'),
    ("model", "3"),
    ("base_url", '"localhost:11434"'),
    ("base_url", '"ftp://host"'),
    ("base_url", '"https://"'),
    ("base_url", '"http://host:port"'),
    ("base_url", '"http://host?key=1"'),
    ("base_url", '"http://[::1"'),
    ("base_url", '"http://ho st"'),
    ("api_key", '"a b"'),
    ("api_key", '"schlüssel"'),
    ("api_key", '"a\\nb"'),
    ("max_input_tokens", "0"),
    ("max_input_tokens", "1.5"),
    ("keep_recent_turns", "-1"),
    ("max_requests", "0"),
    ("max_requests", "true"),
    ("approval", '"always"'),
    ("approval", "[]"),
    ("system_file", '""'),
    ("no_system", '"maybe"'),
    ("no_system", "1"),
    ("tool_timeout_seconds", "0"),
    ("tool_timeout_seconds", "inf"),
    ("retry_limit_seconds", "nan"),
    ("retry_limit_seconds", "-1"),
    ("no_bytes_seconds", "0"),
    ("no_content_seconds", "-1"),
    ("rescue_interval_seconds", "1" + "0" * 400),
    ("rescue_interval_seconds", "true"),
    ("transcripts", "1979-05-27"),
]


@pytest.fixture(autouse=True)
def _empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(
    flags: dict[str, object] | None = None,
    environ: dict[str, str] | None = None,
    file: Path | None = None,
) -> str:
    """The message of the ConfigError that loading raises; always a single line."""
    with pytest.raises(ConfigError) as caught:
        load_settings(flags or {}, environ or {}, file)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults() -> None:
    settings = load_settings({}, {})
    assert settings == Settings(sources=settings.sources)
    assert settings.sources == dict.fromkeys((*SETTING_KEYS, "models"), "default")
    assert settings.model == "claude-sonnet-5-5"
    assert (settings.keep_recent_turns, settings.max_requests) == (5, 100)


def test_every_setting_has_a_rule_and_every_rule_a_setting() -> None:
    # What needs no question is said on the command line alone.
    assert {*SETTING_KEYS, "models", "sources", "allow", "weights"} == set(DEFAULTS)
    assert set(OTHER_VALUES) == set(SETTING_KEYS)
    assert {field.name for field in fields(ModelSettings)} == set(MODEL_KEYS)


@pytest.mark.parametrize("key", SETTING_KEYS)
def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(
    key: str, tmp_path: Path
) -> None:
    text, written, value = OTHER_VALUES[key]
    file = config(tmp_path, f"{key} = {written}")
    environ, flags = {variable_name(key): text}, {key: value}

    from_default = load_settings({}, {})
    assert getattr(from_default, key) == DEFAULTS[key] != value
    for given, source in (
        (load_settings({}, {}, file), str(file)),
        (load_settings({}, environ, file), f"environment {variable_name(key)}"),
        (load_settings(flags, environ, file), f"flag {flag_name(key)}"),
        (load_settings({key: text}, {}), f"flag {flag_name(key)}"),
    ):
        assert getattr(given, key) == value
        assert type(getattr(given, key)) is type(value)
        assert given.sources == {**from_default.sources, key: source}


def test_the_stronger_source_decides_on_different_values(tmp_path: Path) -> None:
    file = config(tmp_path, 'model = "from-file"\nmax_requests = 7\nmax_rescues = 9')
    environ = {"AGENT_MODEL": "from-environment", "AGENT_MAX_REQUESTS": "8"}
    settings = load_settings({"model": "from-flag", "max_requests": None}, environ, file)
    assert (settings.model, settings.max_requests, settings.max_rescues) == ("from-flag", 8, 9)
    assert settings.sources["model"] == "flag --model"
    assert settings.sources["max_requests"] == "environment AGENT_MAX_REQUESTS"


def test_empty_variables_are_unset_and_foreign_ones_left_alone() -> None:
    environ = {"AGENT_MODEL": "", "ANTHROPIC_API_KEY": " ", "AGENT_CONFIG": "", "AGENT_X": "?"}
    assert load_settings({}, environ) == load_settings({}, {})


def test_variables_are_trimmed() -> None:
    settings = load_settings({}, {"ANTHROPIC_API_KEY": "key-1\n", "AGENT_NO_SYSTEM": " TRUE "})
    assert settings.api_key == "key-1"
    assert settings.no_system is True


def test_environment_of_the_process_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MODEL", "another")
    assert load_settings({}, {}).model == "claude-sonnet-5-5"


def test_secrets_are_not_printed() -> None:
    settings = load_settings({}, {"ANTHROPIC_API_KEY": "key-1", "ANTHROPIC_AUTH_TOKEN": "token-1"})
    assert "key-1" not in repr(settings)
    assert "token-1" not in repr(settings)
    message = refusal(environ={"ANTHROPIC_API_KEY": "a secret"})
    assert message == "ANTHROPIC_API_KEY must be a key, without spaces"


@pytest.mark.parametrize(("key", "written"), WRONG_VALUES)
def test_wrong_value_in_the_file(key: str, written: str, tmp_path: Path) -> None:
    file = config(tmp_path, f"{key} = {written}")
    message = refusal(file=file)
    assert message.startswith(f"{file}: {key} must be ")
    assert len(message) < 250 + len(str(file))


@pytest.mark.parametrize(("key", "written"), WRONG_VALUES)
def test_wrong_value_of_a_flag(key: str, written: str) -> None:
    value = tomllib.loads(f"x = {written}")["x"]
    assert refusal({key: value}).startswith(f"{flag_name(key)} must be ")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("model", "two words"),
        ("base_url", "localhost:11434"),
        ("api_key", "schlüssel"),
        ("max_requests", "0"),
        ("max_requests", "many"),
        ("max_requests", "1e3"),
        ("max_rescues", "1.0"),
        ("keep_recent_turns", "-1"),
        ("approval", "Ask"),
        ("no_system", "2"),
        ("tool_timeout_seconds", "0"),
        ("tool_timeout_seconds", "two minutes"),
        ("retry_limit_seconds", "nan"),
        ("rescue_interval_seconds", "1e999"),
    ],
)
def test_wrong_text_of_a_variable(key: str, text: str) -> None:
    message = refusal(environ={variable_name(key): text})
    assert message.startswith(f"{variable_name(key)} must be ")
    assert message.endswith(f", not {text!r}") or key == "api_key"


def test_message_says_what_is_allowed() -> None:
    assert refusal({"approval": "never"}) == (
        "--approval must be one of ask, read-only, auto-edit, yolo, not 'never'"
    )
    assert refusal(environ={"AGENT_MAX_REQUESTS": "0"}) == (
        "AGENT_MAX_REQUESTS must be a whole number of at least 1, not '0'"
    )
    assert "above 0" in refusal({"tool_timeout_seconds": 0})
    long = refusal({"max_requests": "9" * 10_000})
    assert len(long) < 200


def test_text_does_not_stand_for_a_number_in_the_file(tmp_path: Path) -> None:
    message = refusal(file=config(tmp_path, 'max_requests = "100"'))
    assert message.endswith("max_requests must be a whole number of at least 1, not '100'")


@pytest.mark.parametrize(
    "url", ["http://10.0.0.8:8080/v1/", "https://gw.example/a//", "http://[::1]:1"]
)
def test_base_url_loses_its_trailing_slash(url: str) -> None:
    assert load_settings({"base_url": url}, {}).base_url == url.rstrip("/")


def test_paths_may_start_at_home(tmp_path: Path) -> None:
    settings = load_settings({"transcripts": "~/logs", "system_file": Path("~/a.md")}, {})
    assert settings.transcripts == tmp_path / "home" / "logs"
    assert settings.system_file == tmp_path / "home" / "a.md"


def test_unknown_key_has_a_suggestion(tmp_path: Path) -> None:
    file = config(tmp_path, "max_request = 3")
    assert refusal(file=file) == f"{file}: unknown key 'max_request'; did you mean 'max_requests'?"
    message = refusal(file=config(tmp_path, '"colour\\nscheme" = "dark"'))
    assert "unknown key 'colour\\nscheme'; the keys are model, base_url, " in message
    assert "'modle'; did you mean 'model'?" in refusal({"modle": "x"})


def test_models(tmp_path: Path) -> None:
    file = config(
        tmp_path,
        '[models."my-model:3.5"]\ncontext_window = 32_768\ninput_price = 2\n[models.other]\n',
    )
    settings = load_settings({}, {}, file)
    assert settings.models == {
        "my-model:3.5": ModelSettings(context_window=32_768, input_price=2.0),
        "other": ModelSettings(),
    }
    assert settings.sources["models"] == str(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models = 3", 'models must be tables, each headed [models."NAME"]'),
        ("[models]\nname = 3", 'models must be tables, each headed [models."NAME"]'),
        ("[models.m]\ncontext = 3", "[models.'m']: unknown key 'context'; did you mean"),
        ("[models.m]\ncontext_window = 0", "context_window must be a whole number of at least 1"),
        ("[models.m]\noutput_price = -1", "output_price must be a price in USD per million tokens"),
        ("[models.m]\ninput_price = nan", "input_price must be a price in USD per million tokens"),
        ("[models.m-3.5]\ncontext_window = 1", "holds a table '5'; quote a name that has dots"),
    ],
)
def test_wrong_models(text: str, said: str, tmp_path: Path) -> None:
    assert said in refusal(file=config(tmp_path, text))


def test_syntax_error_names_the_line(tmp_path: Path) -> None:
    file = config(tmp_path, 'model = "a"\nmax_requests = \n')
    message = refusal(file=file)
    assert message.startswith(f"{file}: is not valid TOML: ")
    assert "line 2" in message


@pytest.mark.parametrize("text", ["max_requests = " + "9" * 5000, "x = " + "[" * 100_000])
def test_file_that_breaks_the_parser(text: str, tmp_path: Path) -> None:
    assert "is not valid TOML" in refusal(file=config(tmp_path, text))


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(file=tmp_path).startswith(f"{tmp_path}: cannot be read: ")
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'model = "m\xe9"')
    assert refusal(file=latin) == f"{latin}: is not UTF-8 text (at byte 10)"


def test_named_file_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    expected = f"{missing}: there is no such configuration file"
    assert refusal(file=missing) == expected
    assert refusal(environ={"AGENT_CONFIG": str(missing)}) == expected


def test_named_file_replaces_the_users_file(tmp_path: Path) -> None:
    users = platformdirs.user_config_path("agent-chat") / "config.toml"
    users.parent.mkdir(parents=True)
    users.write_text('model = "users"\nmax_requests = 7')
    settings = load_settings({}, {})
    assert (settings.model, settings.max_requests) == ("users", 7)
    assert settings.sources["model"] == f"~/{users.relative_to(Path.home())}"

    named = config(tmp_path, 'model = "named"')
    for loaded in (
        load_settings({}, {}, named),
        load_settings({}, {"AGENT_CONFIG": str(named)}),
        load_settings({}, {"AGENT_CONFIG": str(tmp_path / "missing")}, named),
    ):
        assert (loaded.model, loaded.max_requests) == ("named", 100)


def test_files_of_the_working_folder_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("config.toml", "agent-chat.toml", ".agent/config.toml", ".env", "settings.toml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            'approval = "yolo"\nbase_url = "http://evil.example"\nAGENT_APPROVAL=yolo\n'
        )
    monkeypatch.chdir(tmp_path)
    assert load_settings({}, {}) == Settings(sources=load_settings({}, {}).sources)


@pytest.mark.parametrize(
    "environ",
    [
        {"ANTHROPIC_API_KEY": "key-1"},
        {"ANTHROPIC_AUTH_TOKEN": "token-1"},
        {"ANTHROPIC_BASE_URL": "http://localhost:11434"},
    ],
)
def test_any_endpoint_is_enough(environ: dict[str, str]) -> None:
    require_endpoint(load_settings({}, environ))


def test_no_endpoint_says_what_to_do() -> None:
    with pytest.raises(ConfigError) as caught:
        require_endpoint(load_settings({}, {}))
    for way in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "--base-url",
        "http://localhost:11434",
    ):
        assert way in str(caught.value)


def test_example_file_is_the_defaults() -> None:
    settings = load_settings({}, {}, EXAMPLE)
    assert settings == Settings(sources=settings.sources)
    written = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert set(written) == {key for key in SETTING_KEYS if DEFAULTS[key] is not None}


def test_example_file_explains_every_key(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    uncommented = re.sub(r"(?m)^#(?=[a-z_]+ = |\[)", "", text)
    assert uncommented != text
    written = tomllib.loads(uncommented)
    assert set(written) == {*SETTING_KEYS, "models"}
    assert all(set(table) == set(MODEL_KEYS) for table in written["models"].values())
    load_settings({}, {}, config(tmp_path, uncommented))
    for key in (*SETTING_KEYS, *MODEL_KEYS):
        assert len(re.findall(rf"(?m)^#?{key} = ", text)) == 1 + (
            key in SETTING_KEYS and key in MODEL_KEYS
        )


def test_import_is_light() -> None:
    program = (
        "import sys, agent.config; "
        "print([name for name in ('platformdirs', 'tomllib', 'anthropic', 'rich', 'typer') "
        "if name in sys.modules])"
    )
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("http://localhost:1", False),
        ("http://127.8.0.1:1", False),
        ("http://[::1]:1", False),
        ("http://api.localhost", False),
        ("https://example.com", False),
        ("http://example.com", True),
        ("http://10.0.0.8", True),
        ("http://127.0.0.1.example.com", True),
        ("http://localhost.example.com", True),
        ("http://0.0.0.0:1", True),
    ],
)
@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_a_key_goes_unencrypted_to_this_machine_alone(
    url: str, refused: bool, variable: str
) -> None:
    require_endpoint(load_settings({"base_url": url}, {}))
    settings = load_settings({"base_url": url}, {variable: "key-1"})
    if not refused:
        require_endpoint(settings)
        return
    with pytest.raises(ConfigError, match="unencrypted") as caught:
        require_endpoint(settings)
    assert "key-1" not in str(caught.value)
