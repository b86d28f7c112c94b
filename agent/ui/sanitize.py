"""Makes foreign text harmless to a terminal.

Text from a model, a tool, a file or a server may hold sequences that move the
cursor, write the clipboard (OSC 52), disguise links (OSC 8) or reorder what is
read. :func:`sanitize` takes out whatever a terminal would act on. Where a person
decides on the strength of what is shown, :func:`reveal` takes out nothing and
makes everything invisible visible.

The grammar is that of ECMA-48: CSI sequences, the string sequences (OSC, DCS,
SOS, PM, APC), two-byte and longer escapes, each introduced by ESC or by its
single C1 character.
"""

from __future__ import annotations

import re

MAX_STRING = 4096
"""The longest string sequence, in characters, that is removed with its content.

Of a longer or an unterminated one only the introducer goes; its content is shown.
The bound is also how much a stream may hold back.
"""

_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
_BODY = rf"[^\x00-\x1f\x7f-\x9f]{{0,{MAX_STRING}}}"
_CSI = r"(?:\x1b\[|\x9b)"
_PARAMETERS = r"[0-?]{0,64}[ -/]{0,8}"

_UNSAFE = re.compile(
    rf"{_STRING}{_BODY}(?:\x07|\x1b\\|\x9c)"
    rf"|{_CSI}{_PARAMETERS}[@-~]"
    r"|\x1b[ -/]{0,8}[0-~]"
    r"|\r\n?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
    # What reorders a line, or has neither width nor use here: bidirectional controls,
    # zero-width spaces, tags. Joiners and marks stay: scripts and emoji need them.
    r"|[\u200b\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
_UNFINISHED = re.compile(rf"(?:{_STRING}{_BODY}\x1b?|{_CSI}{_PARAMETERS}|\x1b[ -/]{{0,8}}|\r)\Z")

# Control characters except newline and tab, then what is drawn as nothing or as
# a space, or changes the order of what is drawn: format characters, fillers,
# variation selectors, exotic spaces.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LINE_CONTROLS = re.compile(r"[\t\n]")


def sanitize(text: str) -> str:
    """The text without anything that a terminal acts on, except newline and tab.

    Escape sequences, control characters and what reorders or hides text are removed; a
    carriage return counts as a line end, lone surrogates become U+FFFD.
    """
    return _UNSAFE.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    first = match.group()[0]
    if first == "\r":
        return "\n"
    return "\ufffd" if "\ud800" <= first <= "\udfff" else ""


def reveal(text: str, *, one_line: bool = False) -> str:
    r"""The text with every invisible character written as an escape such as ``\u202e``.

    Nothing is removed. Newlines and tabs stay as they are unless ``one_line``.
    """
    shown = _HIDDEN.sub(_escape, text)
    return _LINE_CONTROLS.sub(_escape, shown) if one_line else shown


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")


class StreamSanitizer:
    """:func:`sanitize` for text that comes in pieces, split anywhere.

    What the pieces and :meth:`close` return, joined, is what :func:`sanitize`
    makes of the whole. An unfinished sequence is held back, at most about
    ``MAX_STRING`` characters.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """Take a piece and return the text that is safe to show now."""
        text = self._held + piece
        unfinished = _UNFINISHED.search(text)
        if unfinished is None:
            self._held = ""
        else:
            self._held = unfinished.group()
            text = text[: unfinished.start()]
        return sanitize(text)

    def close(self) -> str:
        """End the stream and return what was held back, made safe."""
        held, self._held = self._held, ""
        return sanitize(held)
