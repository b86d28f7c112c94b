"""Keys at the prompt that differ from prompt_toolkit's own."""

from __future__ import annotations

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from agent.ui.pastes import Pastes
from agent.ui.sanitize import sanitize

ESCAPE_SECONDS = 0.1
"""How long an Esc may turn out to be the first byte of another key."""

_SHIFT_ENTER = ("\x1b[27;2;13~", "\x1b[13;2u")


def prompt_keys(pastes: Pastes) -> KeyBindings:
    """Enter sends; Alt-Enter, Shift-Enter, Ctrl-J and backslash with Enter make a line.

    Ctrl-C clears the text; in an empty box it raises ``KeyboardInterrupt`` from
    the prompt. Ctrl-G opens the text in an editor. What is pasted is freed of control
    characters and, where it is long, kept in ``pastes`` until the text is sent.
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
            text = pastes.whole(document.text)
            if buffer.history.get_strings()[-1:] != [text]:
                buffer.history.append_string(text)
            event.app.exit(result=text)

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-g", filter=typing)
    def _edit(event: KeyPressEvent) -> None:
        event.app.create_background_task(_in_editor(event.current_buffer, pastes))

    @keys.add("c-c", filter=typing)
    def _clear(event: KeyPressEvent) -> None:
        if event.app.current_buffer.text:
            event.app.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt(), style="class:aborting")

    @keys.add(Keys.BracketedPaste, filter=typing)
    def _paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(pastes.folded(sanitize(event.data)))

    return keys


async def _in_editor(buffer: Buffer, pastes: Pastes) -> None:
    """Let the whole text be changed in $VISUAL, $EDITOR, or an editor that is there."""
    buffer.text = pastes.whole(buffer.text)
    await buffer.open_in_editor()
    buffer.document = Document(sanitize(buffer.text))
