"""The status line under the input box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from agent.events import ContextSize
from agent.ui import figures

_SEPARATOR = " · "
_UNKNOWN = "…"


@dataclass(frozen=True)
class Status:
    """What the line says.

    ``context`` is ``None`` while the conversation was not measured; ``budget`` is in
    tokens, ``cost`` in US dollars, ``None`` where no prices are known.
    """

    model: str
    budget: int
    context: ContextSize | None
    cost: float | None
    approval_mode: str
    sandboxed: bool
    folder: str

    def parts(self) -> Iterator[StyleAndTextTuples]:
        """What the line is made of, the most important first."""
        yield [("", figures.one_line(self.model))]
        budget = figures.tokens(self.budget)
        if self.context is None:
            yield [("", f"{_UNKNOWN} / {budget}")]
        else:
            style = figures.share_style(self.context)
            used = f"{figures.tokens(self.context.tokens)} / {budget}"
            share = f"{used}{_SEPARATOR}{figures.share(self.context)}"
            yield [(f"class:status.{style}" if style else "", share)]
        if self.cost is not None:
            yield [("", figures.dollars(self.cost))]
        style = "class:status.red" if self.approval_mode == "yolo" else ""
        sandbox = " (sandbox)" if self.sandboxed else ""
        yield [(style, f"{figures.one_line(self.approval_mode)}{sandbox}")]
        yield [("", figures.one_line(self.folder))]


def status_line(status: Status, width: int) -> StyleAndTextTuples:
    """The line with as many of its parts as fit the width; at least the first, cut."""
    line: StyleAndTextTuples = []
    for part in status.parts():
        longer = [*line, ("", _SEPARATOR), *part] if line else part
        if line and sum(get_cwidth(fragment[1]) for fragment in longer) > width:
            break
        line = longer
    return line
