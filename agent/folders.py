"""Where this program keeps what belongs to the user."""

from __future__ import annotations

from pathlib import Path

APP_NAME = "agent-chat"


def user_folder() -> Path:
    """The folder of the user's configuration."""
    import platformdirs

    return platformdirs.user_config_path(APP_NAME)


def state_folder() -> Path:
    """The folder of what the program itself remembers."""
    import platformdirs

    return platformdirs.user_state_path(APP_NAME)


def shown_path(path: Path) -> str:
    """A path as people write it, with ``~`` for the home folder."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):  # elsewhere, or no home is known
        return str(path)
