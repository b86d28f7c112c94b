from __future__ import annotations

import itertools

import pytest

from agent.errors import AuthenticationError, ProviderBusyError, ProviderError, StreamBrokenError
from agent.retry import LONGEST_WAIT, MOST_BROKEN_STREAMS, Retries

BUSY = ProviderBusyError("overloaded")


def waits(error: ProviderError, count: int) -> list[float]:
    """The first waits for an error that comes again and again."""
    retries = Retries(None)
    found = [retries.wait(error) for _ in range(count)]
    assert None not in found
    return [seconds for seconds in found if seconds is not None]


def test_waits_grow_differ_and_are_never_longer_than_a_minute() -> None:
    many = [waits(BUSY, 2_000) for _ in range(5)]
    for found in many:
        for attempt, seconds in enumerate(found):
            longest = min(2.0 ** min(attempt, 20), LONGEST_WAIT)
            assert 0.75 * longest <= seconds <= longest
    assert len({found[10] for found in many}) > 1, "everybody would come back at the same moment"


@pytest.mark.parametrize("wish", [0.3, 7.0, 59.0])
def test_a_server_is_not_asked_earlier_than_it_wishes(wish: float) -> None:
    for seconds in waits(ProviderBusyError("busy", retry_after=wish), 12):
        assert wish <= seconds <= LONGEST_WAIT


def test_a_wish_of_an_hour_is_not_granted() -> None:
    assert waits(ProviderBusyError("busy", retry_after=3_600.0), 3) == [LONGEST_WAIT] * 3


def test_a_wish_for_no_wait_does_not_become_a_storm() -> None:
    found = waits(ProviderBusyError("busy", retry_after=0.0), 12)
    assert found[0] < 0.1
    assert sum(found) > 10


@pytest.mark.parametrize("seconds_a_try", [0.0, 50.0])
def test_the_limit_counts_tries_and_waits(seconds_a_try: float) -> None:
    now = 1_000.0
    retries = Retries(300.0, clock=lambda: now)
    begun = now
    while (wait := retries.wait(BUSY)) is not None:
        now += wait + seconds_a_try
    assert 180 < now - begun <= 300 + seconds_a_try


def test_an_answer_that_breaks_off_is_not_paid_for_without_end() -> None:
    retries = Retries(None)
    broken = StreamBrokenError("cut")
    found = list(
        itertools.takewhile(lambda wait: wait is not None, map(retries.wait, [broken] * 9))
    )
    assert len(found) == MOST_BROKEN_STREAMS - 1


@pytest.mark.parametrize("error", [ProviderError("no"), AuthenticationError("no key")])
def test_a_refusal_is_not_tried_again(error: ProviderError) -> None:
    assert Retries(None).wait(error) is None
