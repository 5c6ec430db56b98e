# SPDX-License-Identifier: Apache-2.0
"""Law vcc over a queue that marks: its flows fill the link and share it."""

from typing import Any, List, Tuple

import pytest

from .connection import ACK, CWR, ECE, MSS, Flow

ECT_0 = 2


class Link:
    """Senders through one queue that marks ECT(0) above a threshold and drops what else comes above it; by packets."""

    def __init__(self, threshold: int, delay: int) -> None:
        self.queue: List[Tuple[int, int, bool]] = []
        self.threshold, self.delay = threshold, delay

    def run(self, flows: List[Flow], guests: List[int], ticks: int) -> List[int]:
        """One packet leaves a tick, its ACK arrives delay ticks later; guests have such a window of their own.

        Returns packets delivered in the second half, by flow. A packet dropped is sent again at once.
        """
        sent, acked, done = ([0] * len(flows) for _ in range(3))
        edge, echo = [10 * MSS] * len(flows), [False] * len(flows)
        acks: List[Tuple[int, int, bool]] = []
        for tick in range(ticks):
            for index, flow in enumerate(flows):
                flow.now_ns += 1_000_000
                while sent[index] + MSS <= min(edge[index], acked[index] + guests[index] * MSS):
                    packet = flow.out(seq=sent[index], payload=MSS)
                    marked = packet.ecn == ECT_0 and len(self.queue) >= self.threshold
                    self.queue.append((index, sent[index] + MSS, marked))
                    echo[index] &= not packet.flags & CWR
                    sent[index] += MSS
            if self.queue:
                index, end, marked = self.queue.pop(0)
                echo[index] |= marked
                acks.append((tick + self.delay, index, echo[index]))
                done[index] += tick > ticks // 2
            while acks and acks[0][0] <= tick:
                _, index, marked = acks.pop(0)
                acked[index] += MSS
                heard = flows[index].into(ACK | (ECE if marked else 0), ack=acked[index])
                edge[index] = max(edge[index], acked[index] + heard.window * 128)
        return done


@pytest.mark.parametrize("count", [2, 5, 10])
def test_virtual_flows_share_a_marking_queue(core: Any, count: int) -> None:
    """They fill the link, fairly, and keep the queue about its threshold."""
    flows = [Flow(core, isn=1000 * number) for number in range(count)]
    for flow in flows:
        flow.connect()
    link = Link(threshold=30, delay=10)
    done = link.run(flows, [10**6] * count, 20000)
    assert sum(done) >= 0.98 * 10000
    assert sum(done) ** 2 / count / sum(n * n for n in done) > 0.97
    assert len(link.queue) < 3 * 30
