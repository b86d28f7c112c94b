from __future__ import annotations

import asyncio

from agent.events import EventStream, TextDelta, TurnStarted
from agent.ui.pump import Foreground, Outcome, pump
from agent.ui.render import EventPrinter
from tests.ui.screens import console, shown


async def test_work_ends_with_a_result_an_error_or_an_interrupt() -> None:
    async def works() -> int:
        return 3

    async def fails() -> int:
        raise KeyError("x")

    foreground = Foreground()
    assert await foreground.run(works()) == Outcome(3)
    assert isinstance((await foreground.run(fails())).error, KeyError)
    asyncio.get_running_loop().call_soon(foreground.interrupt)
    assert (await foreground.run(asyncio.sleep(60))).interrupted
    foreground.interrupt()
    assert await foreground.run(works()) == Outcome(3)


async def test_cancelling_the_one_who_waits_stops_the_work_first() -> None:
    ended: list[str] = []

    async def works() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.append("work")

    waiting = asyncio.create_task(Foreground().run(works()))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert ended == ["work"]


async def test_a_pump_moves_the_screen_while_it_waits_and_closes_its_stream() -> None:
    closed: list[bool] = []

    async def events() -> EventStream:
        try:
            yield TurnStarted(1)
            await asyncio.sleep(0.6)
            yield TextDelta("Hello")
        finally:
            closed.append(True)

    made, file = console()
    await pump(events(), EventPrinter(made))
    assert "working" in file.getvalue()
    assert shown(file.getvalue()) == ["", "Hello"]
    assert closed == [True]


async def test_a_failing_printer_closes_the_stream() -> None:
    closed: list[bool] = []

    async def events() -> EventStream:
        try:
            yield TextDelta("first")
            yield TextDelta("never")
        finally:
            closed.append(True)

    made, file = console()
    file.close()
    outcome = await Foreground().run(pump(events(), EventPrinter(made)))
    assert isinstance(outcome.error, ValueError)
    assert closed == [True]
