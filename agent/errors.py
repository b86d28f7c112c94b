"""The exceptions of this program.

::

    AgentError
    ├── ConfigError               a setting is wrong; exit code 2
    ├── SessionError              no such session, or it cannot be opened
    ├── TranscriptError           a record could not be written
    ├── ToolError                 a tool could not do what was asked
    ├── MediaError                an image or document cannot be sent
    ├── ContextTooLargeError      system, tools and request alone exceed the window
    └── ProviderError             a model's server refused or failed
        ├── ProviderBusyError     it may work later: overloaded, rate limited, unreachable
        ├── StreamBrokenError     an answer ended before it was whole
        └── AuthenticationError   the key was refused

SDK and HTTP exceptions are translated into these in the provider adapters;
nothing above them sees any other.
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of all errors that this program raises on purpose.

    The message is one line for a person: what, where, what to do.
    """


class ConfigError(AgentError):
    """A flag, environment variable or configuration file holds a wrong value."""


class SessionError(AgentError):
    """A session does not exist, is ambiguous, or is in use elsewhere."""


class TranscriptError(AgentError):
    """The transcript could not be written or read."""


class ToolError(AgentError):
    """A tool could not do what was asked; the message goes to the model."""


class MediaError(AgentError):
    """An image or document is damaged or too large; the message says which."""


class ContextTooLargeError(AgentError):
    """What cannot be folded is larger than the model's window."""


class ProviderError(AgentError):
    """A model's server refused a request or failed.

    ``status`` is the HTTP status (200 for an error inside a stream, ``None``
    without a response); ``body`` the response text as it came.
    """

    def __init__(self, message: str, *, status: int | None = None, body: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class ProviderBusyError(ProviderError):
    """The server cannot answer now; sending again later may work.

    ``retry_after`` is the server's own wish in seconds, if it had one.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        body: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, body=body)
        self.retry_after = retry_after


class StreamBrokenError(ProviderError):
    """An answer ended before the server said it was complete."""


class AuthenticationError(ProviderError):
    """The server refused the key or token."""
