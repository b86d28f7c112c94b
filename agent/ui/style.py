"""Colours of the input box: the terminal's own sixteen, dim and bold.

They can be read on light and on dark, where prompt_toolkit's own greys cannot.
"""

from __future__ import annotations

from prompt_toolkit.styles import Style

_PLAIN = "bg:default fg:default"

PROMPT_STYLE = Style.from_dict(
    {
        "prompt": "bold ansigreen",
        "question": "bold ansiyellow",
        "paste": "ansicyan",
        "bottom-toolbar": "noreverse dim",
        "status.yellow": "ansiyellow nodim",
        "status.red": "ansired nodim",
        "completion-menu": _PLAIN,
        "completion-menu.completion": _PLAIN,
        "completion-menu.completion.current": f"{_PLAIN} reverse",
        "completion-menu.meta.completion": f"{_PLAIN} dim",
        "completion-menu.meta.completion.current": f"{_PLAIN} dim",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:default reverse",
    }
)
