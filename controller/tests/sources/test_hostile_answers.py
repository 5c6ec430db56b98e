# SPDX-License-Identifier: Apache-2.0
"""Answers that no database and no collector gives: refused, shown in few words, and over with the next good one."""

import pytest

from sdngcc.controller.sources.origin import ERROR_MAX, Origin
from sdngcc.controller.sources.sflow_rt import AnswerError

from .test_sources_sflow_rt import Reader

NOW_NS = 10**12


@pytest.mark.parametrize(
    "nonsense",
    [b":7\r\n:8\r\n", b"*1\r\n$1\r\na\r\n" * 2, b"$99999999999999999999999\r\n", b"%1\r\n*0\r\n+a\r\n", b"*" * 9],
    ids=["numbers", "lists", "a length without end", "a list as a name", "no length"],
)
@pytest.mark.parametrize("of", ["names", "counters"])
def test_replies_that_no_such_command_has_are_refused(nonsense, of):
    pytest.importorskip("atheris")
    import redis

    from . import fuzz_sonic

    source, switch = fuzz_sonic.make()
    client = redis.Redis(connection_pool=redis.ConnectionPool(
        connection_class=fuzz_sonic.Connection, decode_responses=True, socket_timeout=1.0))  # fmt: skip
    fuzz_sonic.Connection.answers = [nonsense] if of == "names" else [fuzz_sonic.MAPS, nonsense * 5]
    assert source.read(switch, client, lambda: NOW_NS) == []
    assert switch.origin.state in ("refused", "silent") and switch.origin.error
    fuzz_sonic.Connection.answers = [fuzz_sonic.MAPS, fuzz_sonic.counters(["5", "5", "5"])]
    source.read(switch, client, lambda: NOW_NS)
    assert switch.origin.state == "fresh" and source.counted(fuzz_sonic.DPID)


def test_a_rate_beyond_what_a_float_holds_is_no_rate():
    source = Reader().source
    with pytest.raises(AnswerError, match="a flow with key '11'"):
        source.take_rates(source.agents[0], [{"key": "11", "value": 10**400}], [], NOW_NS)


def test_an_error_is_shown_in_few_words():
    origin = Origin("10.0.0.1")
    assert origin.failed("refused", "x" * 100_000) and len(origin.error) == ERROR_MAX
