"""A session over the real SDK against the strict server."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import socketserver
import threading
from pathlib import Path
from typing import get_args

import pytest

from agent.errors import AuthenticationError, ContextTooLargeError, ProviderBusyError, SessionError
from agent.events import CompactionFailed, Notice, RetryScheduled, ThinkingDelta
from agent.transcript.view import SUMMARY_ANSWER, SUMMARY_HEADING
from tests.e2e.support import (
    Brain,
    collect,
    compactions,
    is_summary_request,
    last_text,
    open_session,
    send,
)
from tests.server.overflow import OverflowStyle
from tests.server.replies import HttpFault, Reply, StreamFault, ToolUse, overloaded, redirect
from tests.server.server import MessagesServer
from tests.transcript.test_store import lines_at


def page_handler(page: str) -> type[socketserver.BaseRequestHandler]:
    """Answers every request with a web page."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}"
            self.request.sendall(f"{head}\r\nConnection: close\r\n\r\n{page}".encode())

    return Handler


WORDS = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty"]


async def test_sixty_turns_with_tools_under_a_small_budget(tmp_path: Path) -> None:
    """The main job: nothing over the window, nothing invalid, nothing lost."""
    rng = random.Random(11)
    (tmp_path / "data.txt").write_text("\n".join(f"row {n}" for n in range(400)))
    brain = Brain([])
    keep = 2
    with MessagesServer(window=7_000, script=brain) as server:
        async with open_session(
            server, tmp_path, max_input_tokens=3_500, keep_recent_turns=keep
        ) as session:
            folded = 0
            for number in range(1, 61):
                arguments = {"path": "data.txt", "offset": rng.randint(1, 300), "limit": 20}
                brain.steps = [
                    Reply("Looking.", tool_uses=[ToolUse("read_file", arguments)]),
                    Reply(f"Answer {number}: " + " ".join(rng.choices(WORDS, k=60))),
                ]
                before = session.messages()
                events = await collect(session.send(f"question {number} about the data"))
                reports = compactions(events)
                headed = [m for m in session.messages() if m.text.startswith(SUMMARY_HEADING)]
                folded += sum(report.folded_turns for report in reports)
                assert len(headed) == (1 if folded else 0)
                if any(report.folded_turns for report in reports):
                    # A turn here is four messages: question, call, result, answer.
                    assert session.messages()[2 : 2 + 4 * keep] == before[-4 * keep :]
                    assert session.messages()[1].text == SUMMARY_ANSWER
            assert folded >= 40
            assert brain.summaries >= 3
            folder = session.transcript.parent
            report = session.context()
            assert report.folded_turns == folded
            whole = lines_at(folder, report.folded_address)
        requests = server.messages_requests
        assert [r.error for r in requests if r.status != 200] == []
        assert max(r.prompt_tokens for r in requests) <= 3_500 * 1.1
        assert not any(r.consecutive_roles for r in requests)
    for number in range(1, folded + 1):
        assert f"question {number} about the data" in whole
        assert f"Answer {number}:" in whole


async def test_a_folded_turn_is_read_back_at_its_address(tmp_path: Path) -> None:
    brain = Brain([Reply("The secret is kept. " * 40) for _ in range(3)])
    with MessagesServer(script=brain) as server:
        async with open_session(server, tmp_path) as session:
            for number in range(3):
                await send(session, f"remember secret {number}: {number}{number}{number}")
            await collect(session.compact())
            (summary,) = [m for m in session.messages() if m.text.startswith(SUMMARY_HEADING)]
            address = session.context().folded_address
            assert address.split(",")[0] in summary.text
            assert "read_file" in summary.text
            path, span = address.split(", ")[0].rsplit(":", 1)
            first, last = (int(number) for number in span.split("-"))
            arguments = {"path": path, "offset": first, "limit": last - first + 1}
            brain.steps = [Reply(tool_uses=[ToolUse("read_file", arguments)]), Reply("Found.")]
            await send(session, "what was secret 1?")
            results = [r.content for m in session.messages() for r in m.tool_results]
            assert "remember secret 1: 111" in results[0]


async def test_the_next_request_after_a_resume_is_byte_identical(tmp_path: Path) -> None:
    def steps() -> list[Reply]:
        call = Reply("Look.", thinking="Hm.", tool_uses=[ToolUse("list_dir", {"path": "."})])
        return [call, Reply("One."), Reply("Two. " * 80), Reply("Three.")]

    # Two sessions with the same ids, one of them closed and resumed in the middle.
    brain = Brain(steps())
    with MessagesServer(script=brain, window=9_000) as server:
        async with open_session(server, tmp_path, max_input_tokens=5_000) as session:
            await send(session, "first " * 40)
            await send(session, "second " * 40)
            await collect(session.compact())
            await send(session, "third")
            live = session._engine.request(1)
            session_id = session.id
        brain.steps = [Reply("Four.")]
        async with open_session(server, tmp_path, session_id, max_input_tokens=5_000) as session:
            assert session._engine.request(1) == live
            await send(session, "fourth")
        sent = server.messages_requests
        assert [r.status for r in sent] == [200] * len(sent)
        before, after = sent[-2].body, sent[-1].body
        assert json.dumps(after["system"]) == json.dumps(before["system"])
        assert json.dumps(after["tools"]) == json.dumps(before["tools"])
        shared = len(before["messages"]) - 1
        assert after["messages"][:shared] == before["messages"][:shared]
        assert after["max_tokens"] > 0


@pytest.mark.parametrize("style", get_args(OverflowStyle))
async def test_an_overflow_in_any_words_is_rescued_in_the_turn(
    tmp_path: Path, style: OverflowStyle
) -> None:
    brain = Brain([Reply("fact " * 300) for _ in range(30)])
    with MessagesServer(
        window=7_000, advertised_window=200_000, script=brain, overflow=style
    ) as server:
        async with open_session(
            server, tmp_path, rescue_interval_seconds=0.0, max_output_tokens=2_000
        ) as session:
            for number in range(12):
                end = await send(session, f"question {number} " + "word " * 200)
                assert end.error is None, end.error
                assert end.text.startswith("fact")
            size = session.context().size
            assert size.window < 200_000 or size.budget < 140_000
        answered = [r for r in server.messages_requests if r.status == 200 and not r.error]
        assert len(answered) >= 12
        assert not any(r.consecutive_roles for r in server.messages_requests)


async def test_a_window_learnt_from_a_refusal_is_met_once(tmp_path: Path) -> None:
    brain = Brain([Reply("fact " * 300) for _ in range(20)])
    with MessagesServer(window=8_000, advertised_window=200_000, script=brain) as server:
        async with open_session(server, tmp_path, max_output_tokens=1_000) as session:
            for number in range(16):
                end = await send(session, f"question {number} " + "word " * 200)
                assert end.error is None, end.error
            assert session.context().size.window == 8_000
        refused = [r for r in server.messages_requests if r.status != 200]
        assert len(refused) == 1
        assert "8000" in refused[0].error


async def test_too_much_output_reserved_is_lowered_without_folding(tmp_path: Path) -> None:
    brain = Brain([Reply("Fine.")] * 3)
    with MessagesServer(
        window=20_000, advertised_window=200_000, max_output=64_000, script=brain
    ) as server:
        async with open_session(server, tmp_path) as session:
            events = await collect(session.send("hello"))
            assert compactions(events) == []
            assert (await send(session, "again")).text == "Fine."
        statuses = [r.status for r in server.messages_requests]
        assert statuses == [400, 200, 200]


async def test_rescues_are_bounded_per_session(tmp_path: Path) -> None:
    refusal = HttpFault(400, {"error": {"message": "prompt is too long"}})
    brain = Brain([Reply("fact " * 200)] * 4 + [refusal] * 4 + [Reply("Alive.")])
    with MessagesServer(script=brain) as server:
        async with open_session(server, tmp_path) as session:
            for number in range(4):
                await send(session, f"question {number} " + "word " * 200)
            end = await send(session, "too long?")
            assert "too long" in str(end.error)
            assert "everything is kept" in str(end.error)
            assert session.messages()[-2].text == "too long?"
            brain.steps = [Reply("Alive.")]
            assert (await send(session, "still there?")).text == "Alive."


async def test_a_request_larger_than_the_window_makes_no_call(tmp_path: Path) -> None:
    with MessagesServer(window=4_000, script=Brain([Reply("Fine.")])) as server:
        async with open_session(server, tmp_path) as session:
            end = await send(session, "word " * 20_000)
            assert isinstance(end.error, ContextTooLargeError)
            assert server.messages_requests == []
            assert (await send(session, "short")).text == "Fine."


@pytest.mark.parametrize("status", [404, 405])
async def test_without_counting_and_models_it_works_on_estimates(
    tmp_path: Path, status: int
) -> None:
    brain = Brain([Reply("fact " * 100) for _ in range(20)])
    with MessagesServer(
        window=9_000, script=brain, count_tokens_status=status, models_status=status
    ) as server:
        async with open_session(
            server, tmp_path, max_input_tokens=4_000, keep_recent_turns=1
        ) as session:
            for number in range(20):
                end = await send(session, f"question {number} " + "word " * 50)
                assert end.error is None, end.error
        counted = [r for r in server.requests if "count_tokens" in r.path]
        assert len(counted) == 1
        refused = [r for r in server.messages_requests if r.status != 200]
        assert len(refused) == 1  # The window is not known: the first answer asks for too much.
        assert max(r.prompt_tokens for r in server.messages_requests) <= 4_000 * 1.15


async def test_near_the_budget_the_server_is_asked(tmp_path: Path) -> None:
    brain = Brain([Reply("fact " * 100) for _ in range(12)])
    with MessagesServer(window=30_000, script=brain) as server:
        async with open_session(server, tmp_path, max_input_tokens=4_000) as session:
            for number in range(12):
                await send(session, f"question {number} " + "word " * 60)
        counted = [r for r in server.requests if "count_tokens" in r.path]
        assert 0 < len(counted) < len(server.messages_requests)
        live = [r for r in server.messages_requests if not is_summary_request(r.body)]
        assert max(r.prompt_tokens for r in live) <= 4_000


async def test_the_summary_request_reads_the_cache(tmp_path: Path) -> None:
    brain = Brain([Reply("fact " * 300) for _ in range(16)])
    with MessagesServer(script=brain) as server:
        async with open_session(server, tmp_path) as session:
            for number in range(16):
                await send(session, f"question {number} " + "word " * 200)
            await collect(session.compact())
        (asked,) = [r for r in server.messages_requests if is_summary_request(r.body)]
        share = asked.usage["cache_read_input_tokens"] / asked.prompt_tokens
        assert share >= 0.9, share


async def test_a_hundred_turns_of_thinking_and_ten_compactions_give_no_refusal(
    tmp_path: Path,
) -> None:
    """Thinking is bound to its conversation, and the server checks that."""
    brain = Brain([])
    with MessagesServer(window=40_000, script=brain, thinking_bound=True) as server:
        async with open_session(
            server, tmp_path, max_input_tokens=3_200, keep_recent_turns=2
        ) as session:
            thoughts = 0
            for number in range(100):
                brain.steps = [
                    Reply(
                        thinking="Let me look.",
                        tool_uses=[ToolUse("list_dir", {"path": "."})],
                    ),
                    Reply("fact " * 60, thinking="Now I know."),
                ]
                events = await collect(session.send(f"question {number}"))
                thoughts += sum(isinstance(event, ThinkingDelta) for event in events)
        assert thoughts >= 100
        assert [r.error for r in server.messages_requests if r.status != 200] == []
        assert brain.summaries >= 10


async def test_an_answer_too_long_for_the_window_never_folds(tmp_path: Path) -> None:
    """A server that counts the answer's reservation in: nothing is gained by folding."""
    brain = Brain([Reply("Fine.")] * 4)
    with MessagesServer(
        window=20_000, advertised_window=200_000, script=brain, overflow="openrouter"
    ) as server:
        async with open_session(server, tmp_path) as session:
            for number in range(4):
                events = await collect(session.send(f"question {number}"))
                assert compactions(events) == []
                assert session.messages()[-1].text == "Fine."
        assert len([r for r in server.messages_requests if r.status != 200]) == 1


async def test_a_busy_server_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    brain = Brain([overloaded(0.05), Reply("Here."), *[overloaded(9.0)] * 9])
    with MessagesServer(script=brain) as server:
        async with open_session(server, tmp_path, retry_limit_seconds=1.0) as session:
            events = await collect(session.send("hello"))
            assert any(isinstance(event, RetryScheduled) for event in events)
            end = await send(session, "and now?")
            assert isinstance(end.error, ProviderBusyError)
            assert session.messages()[-2].text == "and now?"


async def test_a_wrong_key_is_one_clear_error(tmp_path: Path) -> None:
    with MessagesServer(api_key="another", script=Brain([])) as server:
        async with open_session(server, tmp_path) as session:
            end = await send(session, "hello")
            assert isinstance(end.error, AuthenticationError)
            assert "401" in str(end.error)


FAULTS = [
    StreamFault("reset", after_events=4),
    StreamFault("close", after_events=4),
    StreamFault("eof", after_events=4),
    StreamFault("error", after_events=4),
    StreamFault("malformed_json", after_events=4),
    StreamFault("bad_index", after_events=4),
    HttpFault(200, content_type="text/event-stream"),
    HttpFault(503, "<html>no</html>", content_type="text/html"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: getattr(fault, "kind", fault))
async def test_a_broken_answer_is_asked_for_again(
    tmp_path: Path, fault: StreamFault | HttpFault
) -> None:
    with MessagesServer(script=Brain([fault, Reply("Whole.")])) as server:
        async with open_session(server, tmp_path) as session:
            events = await collect(session.send("hello"))
            assert any(isinstance(event, RetryScheduled) for event in events)
            assert session.messages()[-1].text == "Whole."
        assert [r.status for r in server.messages_requests][-1] == 200
        if isinstance(fault, StreamFault) and fault.kind != "error":
            assert "This answer" in session.transcript.read_text()


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([])) as other:
        moved = redirect(f"{other.url}/v1/messages")
        with MessagesServer(script=Brain([moved] * 9)) as server:
            async with open_session(server, tmp_path) as session:
                end = await send(session, "hello")
                assert "307" in str(end.error)
        assert other.requests == []


async def test_a_tool_call_cut_off_is_answered_and_not_run(tmp_path: Path) -> None:
    cut = Reply(
        "Writing.",
        tool_uses=[ToolUse("write_file", raw_json='{"path": "x.txt", "con')],
        stop_reason="max_tokens",
    )
    with MessagesServer(script=Brain([cut, Reply("Understood.")])) as server:
        async with open_session(server, tmp_path, approval="yolo") as session:
            end = await send(session, "write it")
            assert (end.text, end.error) == ("Understood.", None)
        assert not (tmp_path / "x.txt").exists()
        assert all(r.status == 200 for r in server.messages_requests)


async def test_failed_summaries_are_told_and_the_turn_goes_on(tmp_path: Path) -> None:
    brain = Brain(
        [Reply("fact " * 150) for _ in range(12)], summary=Reply("", stop_reason="refusal")
    )
    with MessagesServer(window=30_000, script=brain) as server:
        async with open_session(
            server, tmp_path, max_input_tokens=4_000, keep_recent_turns=1
        ) as session:
            told = 0
            for number in range(12):
                events = await collect(session.send(f"question {number} " + "word " * 60))
                told += sum(isinstance(event, CompactionFailed) for event in events)
                for report in compactions(events):
                    assert report.method == "digest"
        assert told >= 1
        assert all(r.status == 200 for r in server.messages_requests)


async def test_reset_begins_anew_and_the_old_session_can_be_resumed(tmp_path: Path) -> None:
    brain = Brain([Reply("One."), Reply("Two."), Reply("Three.")])
    with MessagesServer(script=brain) as server:
        async with open_session(server, tmp_path) as session:
            await send(session, "first")
            old = session.id
            session.reset()
            assert session.messages() == ()
            await send(session, "second")
            assert last_text(server.messages_requests[-1].body) == "second"
            assert len(server.messages_requests[-1].messages) == 1
            assert {entry.id for entry in session.sessions()} == {old, session.id}
            session.resume(old)
            await send(session, "third")
            assert len(server.messages_requests[-1].messages) == 3
            with pytest.raises(SessionError):
                session.resume("no-such-session")
            assert session.id == old


async def test_one_session_has_one_writer(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("One.")])) as server:
        async with open_session(server, tmp_path) as first:
            await send(first, "hello")
            with pytest.raises(SessionError, match="another process"):
                async with open_session(server, tmp_path, first.id):
                    pass


async def test_a_smaller_model_compacts_before_its_first_request(tmp_path: Path) -> None:
    brain = Brain([Reply("fact " * 300) for _ in range(10)])
    with MessagesServer(script=brain, window=200_000) as server:
        async with open_session(server, tmp_path) as session:
            for number in range(8):
                await send(session, f"question {number} " + "word " * 200)
            server.window = 8_000
            await session.set_model("claude-haiku-5-5")
            events = await collect(session.send("and now?"))
            assert compactions(events)
            assert session.model == "claude-haiku-5-5"
        assert all(r.status == 200 for r in server.messages_requests)


async def test_exports_are_whole_and_never_overwrite(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("One.")])) as server:
        async with open_session(server, tmp_path) as session:
            with pytest.raises(SessionError, match="nothing to export"):
                session.export(Path("out.md"))
            await send(session, "hello")
            assert "hello" in session.export(Path("out.md")).read_text()
            with pytest.raises(SessionError, match="exists"):
                session.export(Path("out.md"))


async def test_nothing_is_folded_twice_in_a_row(tmp_path: Path) -> None:
    with MessagesServer(script=Brain([Reply("fact " * 200)] * 2)) as server:
        async with open_session(server, tmp_path) as session:
            await send(session, "one " * 100)
            await send(session, "two " * 100)
            assert len(compactions(await collect(session.compact()))) == 1
            (notice,) = await collect(session.compact())
            assert isinstance(notice, Notice)


@pytest.mark.parametrize(
    "raw", ['{"lines": NaN}', '{"lines": 1e999}', '{"path": "\\ud83d"}', "[1]", '{"path": ']
)
async def test_an_odd_tool_input_neither_stops_nor_stays(tmp_path: Path, raw: str) -> None:
    odd = Reply(tool_uses=[ToolUse("read_file", raw_json=raw)])
    with MessagesServer(script=Brain([odd, Reply("One."), Reply("Two.")])) as server:
        async with open_session(server, tmp_path) as session:
            assert (await send(session, "first")).text == "One."
            assert (await send(session, "second")).text == "Two."
        assert [r.status for r in server.messages_requests] == [200] * 3


async def test_a_gateway_that_answers_anything_with_its_start_page(tmp_path: Path) -> None:
    page = "<!doctype html><html>Welcome</html>"
    with (
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), page_handler(page)) as gateway,
        MessagesServer(script=Brain([])) as server,
    ):
        threading.Thread(target=gateway.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{gateway.server_address[1]}"
        async with open_session(server, tmp_path, base_url=url, retry_limit_seconds=0.1) as session:
            end = await send(session, "hello")
            assert end.error is not None
            assert "hello" in session.transcript.read_text()
        gateway.shutdown()


async def test_the_message_is_on_disk_before_the_network_is_used(tmp_path: Path) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    with MessagesServer(script=Brain([])) as server:
        async with open_session(
            server, tmp_path, base_url=f"http://127.0.0.1:{silent.getsockname()[1]}"
        ) as session:
            turn = asyncio.create_task(send(session, "remember 8123"))
            await asyncio.sleep(0.3)
            assert "remember 8123" in session.transcript.read_text()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
    silent.close()


async def test_every_address_that_is_given_opens(tmp_path: Path) -> None:
    brain = Brain([Reply("fact " * 400) for _ in range(4)])
    given = re.compile(r"^- (\d+-\d+), turns? \d+", re.MULTILINE)
    with MessagesServer(script=brain) as server:
        async with open_session(server, tmp_path) as session:
            for number in range(4):
                await send(session, f"question {number}")
            (report,) = compactions(await collect(session.compact()))
            (summary,) = [m for m in session.messages() if m.text.startswith(SUMMARY_HEADING)]
            file = report.address.split(":")[0]
            assert report.address in summary.text
            addresses = {report.address, *(f"{file}:{at}" for at in given.findall(summary.text))}
            assert len(addresses) >= 2
            for address in addresses:
                call = Reply(tool_uses=[ToolUse("read_file", {"path": address})])
                brain.steps = [call, Reply("Read.")]
                await send(session, "read it")
                result = session.messages()[-2].tool_results[0]
                assert not result.is_error, (address, result.content)
                assert "question" in result.content


async def test_after_a_kill_between_two_results_a_compaction_works(tmp_path: Path) -> None:
    calls = [ToolUse("list_dir", {"path": "."}), ToolUse("list_dir", {"path": "."})]
    brain = Brain([Reply("fact " * 200), Reply(tool_uses=calls), Reply("Done.")])
    with MessagesServer(script=brain) as server:
        async with open_session(server, tmp_path) as session:
            await send(session, "first " * 100)
            await send(session, "list twice")
            log, session_id = session._transcript.log_path, session.id
        lines = log.read_bytes().splitlines(keepends=True)
        results = [n for n, line in enumerate(lines) if b'"type":"tool_result"' in line]
        log.write_bytes(b"".join(lines[: results[1]]))
        async with open_session(server, tmp_path, session_id) as session:
            assert compactions(await collect(session.compact()))


async def test_a_rewind_goes_back_also_across_a_compaction(tmp_path: Path) -> None:
    brain = Brain([Reply(f"Answer {n}. " + "fact " * 60) for n in range(1, 7)])
    with MessagesServer(script=brain) as server:
        async with open_session(server, tmp_path) as session:
            for number in range(1, 5):
                await send(session, f"question {number}\nin two lines")
            await collect(session.compact())
            await send(session, "question 5")
            assert session.rewind(3) == "question 3\nin two lines"
            texts = [m.text for m in session.messages()]
            assert [text.split("\n")[0] for text in texts[::2]] == ["question 1", "question 2"]
            assert session.context().folded_turns == 0
            await send(session, "another question")
            assert len(server.messages_requests[-1].messages) == 5
            with pytest.raises(SessionError, match="turns 1-6"):
                session.rewind(4)
            live, session_id = session._engine.request(1), session.id
            text = session.transcript.read_text()
            assert "question 5" in text, "nothing is deleted"
        async with open_session(server, tmp_path, session_id) as session:
            assert session._engine.request(1) == live
            assert session.rewind(None) == "another question"
            for _ in range(2):
                session.rewind(None)
            with pytest.raises(SessionError, match="none yet"):
                session.rewind(None)


async def test_a_fork_goes_on_and_leaves_the_other_alone(tmp_path: Path) -> None:
    brain = Brain([Reply("One."), Reply("Two."), Reply("Three.")])
    with MessagesServer(script=brain) as server:
        async with open_session(server, tmp_path) as session:
            await send(session, "first")
            parent = session.fork()
            assert session.id != parent
            await send(session, "second")
            assert f"forked from: {parent}" in session.transcript.read_text()
            assert len(session.messages()) == 4
            session.resume(parent)
            assert len(session.messages()) == 2
            async with open_session(server, tmp_path) as other:
                with pytest.raises(SessionError, match="--fork"):
                    other.resume(parent)
                other.resume(parent, fork=True)
                assert len(other.messages()) == 2
                await send(other, "third")
            assert len(session.messages()) == 2


async def test_the_next_summary_is_prepared_while_nobody_sends(tmp_path: Path) -> None:
    brain = Brain([Reply("fact " * 150) for _ in range(40)])
    with MessagesServer(window=30_000, script=brain) as server:
        async with open_session(
            server,
            tmp_path,
            patient=True,
            background_summary=True,
            max_input_tokens=5_000,
            keep_recent_turns=2,
        ) as session:
            prepared = folds = 0
            for number in range(24):
                before = brain.summaries
                events = await collect(session.send(f"question {number} " + "word " * 100))
                folds += bool(compactions(events))
                await asyncio.sleep(0.05)
                prepared += brain.summaries > before and not compactions(events)
            assert folds >= 2
            assert prepared >= 1
            assert brain.summaries <= folds * 2
            # One that is ready and not used yet is counted when it is used or dropped.
            assert 0 <= len(server.messages_requests) - session.totals().requests <= 1
        assert [r.error for r in server.messages_requests if r.status != 200] == []


@pytest.mark.parametrize("leave", ["close", "reset", "send"])
async def test_leaving_while_a_summary_is_prepared_changes_nothing(
    tmp_path: Path, leave: str
) -> None:
    slow = Reply("Late. " * 200, delay=0.02)
    brain = Brain([Reply("fact " * 150) for _ in range(40)], summary=slow)
    with MessagesServer(window=30_000, script=brain) as server:
        async with open_session(
            server,
            tmp_path,
            patient=True,
            background_summary=True,
            max_input_tokens=5_000,
            keep_recent_turns=2,
        ) as session:
            while not brain.summaries:
                assert not compactions(await collect(session.send("word " * 60)))
                await asyncio.sleep(0.05)
            messages = session.messages()
            if leave == "reset":
                session.reset()
            elif leave == "send":
                brain.steps.insert(0, Reply("Short."))
                assert (await send(session, "short")).text == "Short."
            else:
                assert session.messages() == messages
