"""The models endpoint's answers."""

from __future__ import annotations

from collections.abc import Sequence

from tests.server.wire import JsonObject

LINES = ("haiku", "sonnet", "opus", "fable", "mythos")


def model_info(identifier: str, max_input_tokens: int, max_tokens: int) -> JsonObject:
    """A model with its limits in tokens and its capabilities."""
    return {
        "type": "model",
        "id": identifier,
        "display_name": identifier.replace("-", " ").title(),
        "created_at": "2026-09-15T00:00:00Z",
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": next((line for line in LINES if line in identifier), None),
        "max_input_tokens": max_input_tokens,
        "max_tokens": max_tokens,
        "capabilities": _capabilities(),
    }


def model_list(models: Sequence[JsonObject]) -> JsonObject:
    """One page with all models."""
    return {
        "data": list(models),
        "has_more": False,
        "first_id": models[0]["id"] if models else None,
        "last_id": models[-1]["id"] if models else None,
    }


def _capabilities() -> JsonObject:
    yes, no = {"supported": True}, {"supported": False}
    efforts = dict.fromkeys(("low", "medium", "high", "max", "xhigh"), yes)
    strategies = ("clear_thinking_20251015", "clear_tool_uses_20250919", "compact_20260112")
    modes = {"adaptive": yes, "between_tools": yes, "disabled": no, "enabled": no}
    return {
        "batch": yes,
        "citations": yes,
        "code_execution": no,
        "compaction": {"supported": False, "summarize": no},
        "context_management": {"supported": False, **dict.fromkeys(strategies, no)},
        "effort": {"supported": True, **efforts},
        "image_input": yes,
        "pdf_input": yes,
        "server_tools": {"supported": False, "code_execution": no, "web_search": no},
        "structured_outputs": yes,
        "thinking": {"supported": True, "types": modes},
    }
