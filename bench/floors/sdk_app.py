"""A bare chat with the SDK: prompt_toolkit reads a line, the SDK sends it after a history.

``python -m bench.floors.sdk_app [FILE]``: the messages of the history, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import anthropic
from prompt_toolkit import PromptSession


async def _chat(messages: list[Any]) -> None:
    client = anthropic.AsyncAnthropic(max_retries=0)
    session: PromptSession[str] = PromptSession("> ", multiline=False)
    while True:
        messages.append({"role": "user", "content": await session.prompt_async()})
        stream = await client.messages.create(
            model="claude-sonnet-5-5", max_tokens=1_000, messages=messages, stream=True
        )
        answer = ""
        async for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                answer += event.delta.text
        print(answer, flush=True)
        messages.append({"role": "assistant", "content": answer})


if __name__ == "__main__":
    asyncio.run(_chat([] if len(sys.argv) == 1 else json.loads(Path(sys.argv[1]).read_text())))
