"""Keys at the prompt that differ from prompt_toolkit's own."""

from __future__ import annotations

from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from agent.ui.sanitize import sanitize

_SHIFT_ENTER = ("\x1b[27;2;13~", "\x1b[13;2u")


def prompt_keys() -> KeyBindings:
    """Enter sends; Alt-Enter, Shift-Enter, Ctrl-J and backslash with Enter make a line.

    Ctrl-C clears the text; in an empty box it raises ``KeyboardInterrupt`` from
    the prompt. What is pasted is freed of control characters.
    """
    for sequence in _SHIFT_ENTER:
        ANSI_SEQUENCES[sequence] = (Keys.Escape, Keys.ControlM)
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("enter", filter=typing)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        document = buffer.document
        if document.is_cursor_at_the_end and document.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif document.text.strip():
            buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def _clear(event: KeyPressEvent) -> None:
        if event.app.current_buffer.text:
            event.app.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt(), style="class:aborting")

    @keys.add(Keys.BracketedPaste, filter=typing)
    def _paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(sanitize(event.data))

    return keys
