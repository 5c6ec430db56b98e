# SPDX-License-Identifier: Apache-2.0
"""What rates by path cost a whole controller, from switches' answers to control messages, and what they take of links.

The network is that of size.py, each VM with PAIRS destinations; a quarter of the fabric's ports are full.  What pairs
could send is spread widely (log-normal), and changes by 5% each period, which is T_i = 5 ms.  The engine runs in this
process: each period it asks the bridges, takes their answers, decides, and sends messages, which shims in arrays
(by_path_shims.py) obey.  Time is that of the processor, as of a core that does nothing else; there are no sockets.

A row is a controller alone with its network, or one of ten, which owns the ports of every tenth switch, leaves and
spines counted.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import tempfile
import time
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from sdngcc.controller.cluster.owner import Alone
from sdngcc.controller.rates.paths.entries import CAPS
from sdngcc.controller.wire import experimenter
from sdngcc.testbed.bench import size
from sdngcc.testbed.bench.by_path_shims import Floats, Hop, Sender, Shims

PERIOD_NS = 5_000_000
CAPACITY = 1.25e9  # bytes/s, of each port
PAIRS = size.TARGETS  # of each VM
VMS_A_SWITCH = 20
BUSY = 0.25  # of the ports
CHANGE = 0.05  # of what a pair wants, each period
WARM = 40  # periods before the first that counts
LATER_NS = 2_000_000_000  # a period begins so long after the network was built


@dataclasses.dataclass
class Row:
    """What the periods of one controller took; times of the processor, in ms, means but for p50 and p99."""

    name: str
    pairs: int  # of the network
    entries: int  # at the ports of this controller
    ask_ms: float
    take_ms: float  # answers but the last one
    p50_ms: float  # from the last answer to the messages
    p99_ms: float
    period_ms: float  # all of it
    pairs_a_second: float  # those with entries here, of CPU
    messages: float  # in a period
    answers_part: float  # bytes of answers, as part of what the ports of this controller carry
    messages_part: float


@dataclasses.dataclass
class Took:
    """What one period took, in seconds of the processor."""

    ask: float = 0.0
    take: float = 0.0
    rest: float = 0.0
    messages: int = 0
    answer_bytes: int = 0
    message_bytes: int = 0


class Some(Alone):
    """Owns every tenth switch, say, of hosts' bridges, leaves and spines in a row; all until it is told which."""

    owned: Optional[FrozenSet[int]] = None

    def divide(self, dpids: Iterable[int], count: int) -> None:
        """Own every ``count``-th of these switches from now on, the first of which is number ``count``."""
        self.owned = frozenset(sorted(dpids)[count - 1 :: count])

    def owns(self, dpid: int) -> bool:
        """Tell whether a switch is one of those."""
        return self.owned is None or dpid in self.owned


class Site(size.Site):
    """A network of ``pairs`` pairs whose clock goes on while the engine is called, and from period to period."""

    def __init__(self, folder: pathlib.Path, pairs: int, controllers: int) -> None:
        vms = max(size.NETWORK_VMS, pairs // PAIRS)
        self._virtual_ns: Optional[int] = None
        self._entered_ns = 0  # when the engine was called; 0: it is not
        owner = Some()
        super().__init__(
            folder, max(8, vms // VMS_A_SWITCH), vms, owner=owner, decision="maxmin", by_path=True,
            capacity_mbps=CAPACITY * 8e-6, round_deadline_us=100_000,
        )  # fmt: skip
        self.build()
        owner.divide(self.engine.switches, controllers)
        for dpid in [dpid for dpid in self.engine.switches if not owner.owns(dpid)]:
            self.engine.give_up(dpid)
        self._virtual_ns = self.clock() + LATER_NS  # while the network was built no time passed, however long it took
        self.chance = np.random.default_rng(1)
        self.shims = self._shims()

    def clock(self) -> int:
        """Return the site's time, ns."""
        if self._virtual_ns is None:
            return super().clock()
        return self._virtual_ns + (time.monotonic_ns() - self._entered_ns if self._entered_ns else 0)

    def _shims(self) -> Shims:
        by_place: Dict[Hop, List[int]] = {}
        for number, (source, _) in enumerate(self.pairs):
            by_place.setdefault(self.places[source], []).append(number)
        senders = [Sender(place, by_place[place]) for place in sorted(by_place)]
        order = [self.pairs[number] for sender in senders for number in sender.pairs]
        ways, addresses = [], []
        fabric = {*self.leaves, *self.spines}
        for source, target in order:
            hops = self.engine.attribution.way((size.mac(source), size.mac(target)))
            ways.append([hop for hop in hops if hop[0] in fabric])
            addresses.append(bytes(10) + b"\xff\xff" + b"\x0a" + target.to_bytes(3, "big"))
        demands = self.chance.lognormal(0, 1.5, len(order))
        self.ways = ways
        load: Dict[Hop, float] = {}
        for way, demand in zip(ways, demands.tolist()):
            for hop in way:
                load[hop] = load.get(hop, 0.0) + demand
        demands *= CAPACITY / np.quantile(list(load.values()), 1 - BUSY)
        return Shims(senders, ways, addresses, CAPACITY, demands)

    def _run(self, function: Callable[..., Any], several: Sequence[Tuple[Any, ...]] = ((),)) -> float:
        """Call the engine, once with each of several arguments; return the seconds it took in all."""
        assert self._virtual_ns is not None
        before = time.thread_time()
        self._entered_ns = time.monotonic_ns()
        for arguments in several:
            function(*arguments)
            self.collector.run()
        self._entered_ns = 0
        return time.thread_time() - before

    def period(self) -> Took:
        """Run a period; the next begins PERIOD_NS after it did."""
        assert self._virtual_ns is not None
        begun, took, engine = self._virtual_ns, Took(), self.engine
        demands = self.shims.demands
        self.shims.send(demands * np.exp(self.chance.normal(0, CHANGE, len(demands))), begun)
        took.ask = self._run(engine.tick)
        answers = [(one.dpid, answer) for one in engine.outbox.drain() for answer in self._answers(one.dpid, one.data)]
        random.Random(begun).shuffle(answers)
        answers.sort(key=lambda one: len(one[1]) <= 56)  # those of shims without paths do not come last
        took.answer_bytes = sum(len(answer) for _, answer in answers)
        took.take = self._run(engine.multipart, answers[:-1])
        took.rest = self._run(engine.multipart, answers[-1:])
        while engine.backlog:
            took.rest += self._run(engine.tick)
        for one in engine.outbox.drain():
            count = self.shims.hear(one.dpid, one.data)
            took.messages += count
            took.message_bytes += len(one.data) if count else 0
        self._virtual_ns = begun + PERIOD_NS
        return took

    def _answers(self, dpid: int, data: bytes) -> List[bytes]:
        """Return what switches answer to requests."""
        found, at = [], 0
        while at < len(data):
            length = int.from_bytes(data[at + 2 : at + 4], "big")
            request, at = data[at : at + length], at + length
            if request[1] != 18 or request[8:10] != b"\xff\xff":  # not an experimenter's multipart request
                continue
            xid, kind, _, _, _ = experimenter.decode_request(request)
            if kind == experimenter.PORT_MARKS:
                found.append(experimenter.encode_reply(xid, kind, 1, 1, self.clock(), []))
            else:
                found += self.shims.answer(dpid, request)
        return found

    def capacity(self) -> float:
        """Return what the ports that this controller shares carry, bytes/s."""
        assert self.engine.rounds.paths is not None
        return CAPACITY * sum(hop[0] != CAPS for hop in self.engine.rounds.paths.ports.table.ports.of)


def measure(pairs: int, controllers: int, periods: int, folder: pathlib.Path) -> Row:
    """Return what a controller's periods take. Raises ValueError where a network is too small for so many."""
    site = Site(folder, pairs, controllers)
    for _ in range(WARM):
        site.period()
    all_took = [site.period() for _ in range(periods)]
    columns: Dict[str, Floats] = {
        field.name: np.array([getattr(one, field.name) for one in all_took]) for field in dataclasses.fields(Took)
    }
    assert site.engine.rounds.paths is not None
    table = site.engine.rounds.paths.ports.table
    period = float((columns["ask"] + columns["take"] + columns["rest"]).mean())
    carried = site.capacity() * PERIOD_NS / 1e9
    if not carried:
        raise ValueError(f"--pairs {pairs}: the ports of one of {controllers} controllers carry nothing; more pairs "
                         "have more switches, and fewer --controllers own more of them")
    here = sum(any(hop in table.ports.of for hop in way) for way in site.ways)
    return Row(
        f"one of {controllers}" if controllers > 1 else "alone",
        len(site.pairs),
        len(table.rows.numbers),
        float(columns["ask"].mean() * 1e3),
        float(columns["take"].mean() * 1e3),
        float(np.quantile(columns["rest"], 0.5) * 1e3),
        float(np.quantile(columns["rest"], 0.99) * 1e3),
        period * 1e3,
        here / period,
        float(columns["messages"].mean()),
        float(columns["answer_bytes"].mean()) / carried,
        float(columns["message_bytes"].mean()) / carried,
    )


def report(rows: List[Row]) -> None:
    """Print the rows."""
    print("CPU time in ms; bytes are parts of what the controller's ports carry")
    print(
        f"{'':10} {'pairs':>7} {'entries':>7} {'ask':>6} {'take':>7} {'rest p50':>8} {'p99':>7} {'period':>7} "
        f"{'pairs/s':>9} {'told':>6} {'answers':>8} {'messages':>8}"
    )
    for row in rows:
        print(
            f"{row.name:10} {row.pairs:7} {row.entries:7} {row.ask_ms:6.2f} {row.take_ms:7.2f} {row.p50_ms:8.2f} "
            f"{row.p99_ms:7.2f} {row.period_ms:7.2f} {row.pairs_a_second:9.0f} {row.messages:6.0f} "
            f"{row.answers_part:8.4%} {row.messages_part:8.4%}"
        )


def main() -> None:
    """Measure, print a table, write results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--periods", type=int, default=100)
    parser.add_argument("--controllers", type=int, default=10, help="of the largest network, in a row of its own")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            rows = [measure(pairs, 1, chosen.periods, folder) for pairs in chosen.pairs]
            rows.append(measure(max(chosen.pairs), chosen.controllers, chosen.periods, folder))
        except ValueError as error:
            parser.error(str(error))
    (chosen.out / "by_path.json").write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    report(rows)


if __name__ == "__main__":
    main()
