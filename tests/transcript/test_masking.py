from __future__ import annotations

import json
import time
from html import escape

import pytest

from agent.transcript.masking import mask

SECRETS = (
    "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWx",
    "ghp_0123456789abcdefABCDEF0123456789abcd",
    "github_pat_11ABCDEFG0123456789_abcdefghij",
    "glpat-0123456789abcdefABCD",
    "xoxb-123456789012-abcdefghijkl",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "sk_live_0123456789abcdef01234567",
    "hf_abcdefghijklmnopqrstuvwxyz012345",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
)
NAMED = (
    ("password = 'hunter2-and-more'", "hunter2-and-more"),
    ('"db_password": "s3cr3t-value"', "s3cr3t-value"),
    ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
    ("DB_PASSWORD=correct-horse-battery", "correct-horse-battery"),
    ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
    ("https://user:pa55word@host/path", "pa55word"),
    ("x-api-key: 0123456789abcdef", "0123456789abcdef"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END", "IBAAKC"),
)
PLAIN = (
    "the token count is 12,345 tokens",
    "max_tokens=32000 tokens: 200000",
    "password: string | None = None",
    "def token(self) -> str: return self._token",
    "the key=value form; a task-force-of-sixteen-people",
    "see https://example.com:8080/a@b and user@example.com",
    "commit 4c894246a5b0ce84ad69ea0e784ffd8ba0307",
)


@pytest.mark.parametrize(("text", "secret"), [*NAMED, *((f"it is {s}, see", s) for s in SECRETS)])
def test_what_looks_like_a_credential_is_masked_in_any_form(text: str, secret: str) -> None:
    for form in (str, json.dumps, lambda text: json.dumps(json.dumps(text)), escape):
        masked = mask(form(f"before\n{text} after"))
        assert secret not in masked
        assert "before" in masked
        assert "after" in masked
        assert len(masked) == len(form(f"before\n{text} after"))
    assert json.loads(mask(json.dumps({"a": text, "b": f'{text}"'}))).keys() == {"a", "b"}


def test_a_key_that_is_cut_off_does_not_break_what_holds_it() -> None:
    value = {"a": '-----BEGIN PRIVATE KEY-----\nIBAAKC"', "b": "x"}
    masked = json.loads(mask(json.dumps(value)))
    assert "IBAAKC" not in masked["a"]
    assert masked["b"] == "x"


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_stays(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize(
    "piece",
    ["a_", "a", "token", "://a:", "-----BEGIN PRIVATE KEY-----", "eyJ", "A", "API_KEY=", "\\"],
)
def test_masking_takes_linear_time(piece: str) -> None:
    started = time.process_time()
    mask(piece * (400_000 // len(piece)))
    assert time.process_time() - started < 4
