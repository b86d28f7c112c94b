"""Hides what looks like a credential in texts that are shown to others."""

from __future__ import annotations

import re

# The forms that issuers document for their keys.
_TOKENS = (
    r"sk-[A-Za-z0-9_-]{16,}",  # Anthropic, OpenAI
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",  # AWS
    r"AIza[A-Za-z0-9_-]{30,}",  # Google
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"(?:npm|hf|pypi)[_-][A-Za-z0-9_-]{20,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",  # JSON web token
)
# Also as JSON and HTML write it.
_QUOTE = r"(?:\\{0,3}[\"']|&quot;|&#x27;)?"
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"
_VALUE = r"[^\s\"'`\\,;<>&(){}\[\]]{6,200}"
_NAME = (
    r"(?:[a-z0-9]+[_-]){0,6}(?:api[_-]?key|access[_-]?key|secret|[a-z]*token|passw(?:or)?d"
    r"|passphrase|private[_-]?key)"
)
_SECRET = re.compile(
    r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?:[A-Za-z0-9+/=\s]|\\+[nr]){1,20000}"
    rf"|{_START}(?:{'|'.join(_TOKENS)})"
    r"|(://[^\s/:@\"'<>]{1,80}:)[^\s/@\"'<>]{1,200}(?=@)"
    r"|((?i:\b(?:bearer|basic)) {1,3})[A-Za-z0-9._~+/=-]{12,}"
    # What a program calls so is a secret if it has a digit; an environment variable always is.
    rf"|({_START}(?i:{_NAME}){_QUOTE}\s{{0,3}}[:=]\s{{0,3}}{_QUOTE})"
    rf"(?=[^\s\"',;]{{0,200}}\d){_VALUE}"
    rf"|({_START}[A-Z0-9_]{{0,40}}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)={_QUOTE}){_VALUE}"
)


def mask(text: str) -> str:
    """The text with what looks like a key, token or password written as asterisks.

    It stays as long as it is. A guess by form and by name, which finds common ones and
    never all.
    """
    return _SECRET.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    kept = next((part for part in match.groups() if part is not None), "")
    return kept + "*" * (len(match.group()) - len(kept))
