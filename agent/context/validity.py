"""Whether a history is one that a server accepts (pure).

The rules that a rewrite of a conversation could break; the sources of the others
(tool inputs, encoding) are checked where they come in.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.messages import Message, is_blank, is_thinking


def history_fault(messages: Sequence[Message]) -> str:
    """What is wrong with a history, or an empty string."""
    if not messages:
        return "there is no message"
    if messages[0].role != "user":
        return "the first message is not the user's"
    open_calls: set[str] = set()
    seen: set[str] = set()
    previous = ""
    for number, message in enumerate(messages):
        fault = _message_fault(message, open_calls)
        if not fault and message.role == previous:
            fault = f"two {previous} messages in a row"
        uses = [use.id for use in message.tool_uses]
        if not fault and (len(set(uses)) < len(uses) or seen & set(uses)):
            fault = "a tool call's id appears twice"
        if fault:
            return f"message {number}: {fault}"
        seen.update(uses)
        open_calls = set(uses)
        previous = message.role
    return ""


def _message_fault(message: Message, open_calls: set[str]) -> str:
    results = [result.tool_use_id for result in message.tool_results]
    if not message.blocks:
        return "no content"
    if any(is_blank(block) for block in message.blocks):
        return "a text block is empty"
    if is_thinking(message.blocks[-1]):
        return "it ends with thinking"
    if sorted(results) != sorted(open_calls):
        return "tool results do not match the calls before"
    if message.role == "assistant" and results:
        return "a tool result in an assistant message"
    if list(message.blocks[: len(results)]) != list(message.tool_results):
        return "tool results do not come first"
    return ""
