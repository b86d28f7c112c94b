"""Errors of the Messages API and their bodies."""

from __future__ import annotations

from dataclasses import dataclass

from tests.server.wire import JsonObject


@dataclass(frozen=True)
class ApiError:
    """A refusal: HTTP status, the API's error type, and its message."""

    status: int
    type: str
    message: str

    def body(self, request_id: str) -> JsonObject:
        """The response body."""
        return {
            "type": "error",
            "error": {"type": self.type, "message": self.message},
            "request_id": request_id,
        }


def invalid_request(message: str) -> ApiError:
    """A 400 ``invalid_request_error``."""
    return ApiError(400, "invalid_request_error", message)


def not_found(what: str) -> ApiError:
    """A 404 ``not_found_error``."""
    return ApiError(404, "not_found_error", what)


METHOD_NOT_ALLOWED = ApiError(405, "invalid_request_error", "Method Not Allowed")
REQUEST_TOO_LARGE = ApiError(413, "request_too_large", "Request exceeds the maximum size")
