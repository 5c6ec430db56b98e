# SPDX-License-Identifier: Apache-2.0
"""``sdngcc shim``: the shim in this machine's Open vSwitch datapath, over generic netlink."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, TextIO, Tuple, TypeVar

import click

from sdngcc.shim.netlink import LIMITERS, ROLES, Limiter, Path, Peer, Port, Settings, ShimClient, ShimError
from sdngcc.tables import make_console
from sdngcc.text import shown

if TYPE_CHECKING:
    from rich.table import Table

# Suffixes of rates and of times, and their factors to bit/s and ns.
RATE_SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
TIME_SUFFIXES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}

Result = TypeVar("Result")


class Rate(click.ParamType):
    """A rate in bit/s, such as 250M; converted to bytes/s."""

    name = "rate"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> int:
        """Return bytes/s; fails with what is allowed."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)(?:bit/s)?", str(value))
        bits = float(found.group(1)) * RATE_SUFFIXES[found.group(2)] if found else -1.0
        if bits < 0 or bits % 8:
            self.fail(f"'{value}' is no rate; allowed: a multiple of 8 bit/s with an optional k, M or G, such as 250M")
        return int(bits // 8)


class Time(click.ParamType):
    """A time such as 5ms; converted to ns."""

    name = "time"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> int:
        """Return ns; fails with what is allowed."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(ns|us|ms|s)", str(value))
        if str(value) == "0":
            return 0
        if not found:
            self.fail(f"'{value}' is no time; allowed: a number with ns, us, ms or s, such as 5ms")
        return round(float(found.group(1)) * TIME_SUFFIXES[found.group(2)])


class KnobValue(click.ParamType):
    """NAME=VALUE of a knob."""

    name = "knob"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Tuple[str, int]:
        """Return name and value; fails with what is allowed."""
        found = re.fullmatch(r"([a-z0-9-]+)=(\d+)", str(value))
        if not found:
            self.fail(f"'{value}' is no knob; allowed: NAME=WHOLE_NUMBER; `sdngcc shim show` lists the names")
        return found.group(1), int(found.group(2))


class Addresses(click.ParamType):
    """Addresses and networks with spaces or commas between them; an empty text is none."""

    name = "addresses"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Tuple[str, ...]:
        """Return them one by one; whether each is usable is the client's to say."""
        return tuple(one for one in re.split(r"[\s,]+", str(value)) if one)


def read_key(file: Optional[TextIO]) -> Optional[bytes]:
    """Return the 16 bytes of a key file, None without one; a ClickException if it holds something else."""
    if file is None:
        return None
    text = file.read().strip()
    if not re.fullmatch(r"[0-9a-fA-F]{32}", text):
        raise click.ClickException(f"{file.name}: a key is 32 hex digits; the key in force stays")
    return bytes.fromhex(text)


def with_shim(action: Callable[[ShimClient], Result]) -> Result:
    """Return what an action on a client returns; a ShimError or ValueError ends the program with its text."""
    try:
        with ShimClient() as client:
            return action(client)
    except (ShimError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def megabits(rate: Optional[int], zero: str = "0.0") -> str:
    """Return bytes/s as Mb/s; a dash for a value that the port has not."""
    if rate is None:
        return "-"
    return f"{rate * 8 / 1e6:,.1f}" if rate else zero


def read_all(client: ShimClient, of: Optional[str] = None) -> Tuple[Settings, List[Port], List[Limiter]]:
    """Return settings with the knobs of a law, by default the one in force, ports and limiters."""
    return client.settings_get(of), client.ports(), client.limiters()


def settings_text(settings: Settings) -> str:
    """Return the settings as lines for people."""
    pace = settings.limiter == "pace"
    ahead = ", small packets ahead" if settings.ahead else ""
    depth = f"{settings.burst_us} us at the rate in one go, horizon {settings.horizon / 1e6:g} ms{ahead}" if pace else (
        f"burst {settings.burst} bytes")
    words = ["yes" if flag else "no" for flag in (settings.ecn, settings.accept_v0, settings.key_set,
                                                  settings.key_other_set)]
    waiting = f"at most {settings.waiting_max}" if settings.waiting_max else "any number of"
    lines = [
        f"law {settings.law} of {', '.join(settings.laws)}; a VM is inactive after {settings.inactive / 1e9:g} s",
        f"limiter {settings.limiter}: {depth}; ecn {words[0]}, as ECT({settings.codepoint})",
        f"of a VM, {waiting} packets may wait on one uplink",
        f"control messages: IP protocol {settings.protocol}; key set {words[2]}; accept v0 {words[1]}; "
        f"other key set {words[3]}",
    ]
    lines += [f"sender {sender} used the other key {silent} s ago"
              for sender, silent in settings.other_key_senders.items()]
    under = "every law" if settings.conversations else "laws that need them"
    lines.append(f"peers: under {under}; a VM has at most {settings.peers_max}; "
                 f"collected after {settings.peer_idle / 1e9:g} s")
    lines.append(f"law {settings.of}: period {settings.period / 1e6:g} ms")
    lines += [f"knob {knob.name} = {knob.value} {knob.unit} (default {knob.default}, {knob.minimum} to "
              f"{knob.maximum}): {knob.help}" for knob in settings.knobs.values()]
    return "\n".join(lines)


def limiter_table(ports: List[Port], limiters: List[Limiter], sent: Dict[Tuple[int, int], float]) -> Table:
    """Return a table of limiters; sent has bytes/s by (VM, uplink), and else the last period's rate is shown."""
    from rich.box import SIMPLE
    from rich.table import Table

    by_index = {port.ifindex: port for port in ports}
    table = Table(title="limiters (Mb/s)", box=SIMPLE, pad_edge=False)
    for head in ("VM", "uplink", "state"):
        table.add_column(head)
    for head in ("rate", "share", "sent", "weight", "min", "max", "packets", "drops"):
        table.add_column(head, justify="right")
    for one in limiters:
        vm, uplink = by_index.get(one.vm), by_index.get(one.uplink)
        if not vm or not uplink:
            continue
        state = "congested" if one.congested else "active" if one.active else "inactive"
        rate = sent.get((one.vm, one.uplink), one.sent_rate)
        table.add_row(shown(vm.name), shown(uplink.name), state, megabits(one.rate), megabits(one.share),
                      megabits(round(rate)), str(vm.weight), megabits(vm.min_rate, "none"),
                      megabits(vm.max_rate, "none"),
                      f"{one.tx_packets:,}", f"{one.drops:,}")
    return table


def port_table(ports: List[Port]) -> Table:
    """Return a table of ports and their counters, those that are not 0."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(title="ports (Mb/s)", box=SIMPLE, pad_edge=False)
    for head in ("port", "role", "law", "weight", "min", "max", "capacity", "qdisc", "addresses", "counters"):
        table.add_column(head)
    for port in ports:
        counters = "  ".join(f"{name} {value:,}" for name, value in port.stats.items() if value)
        weight = "-" if port.weight is None else str(port.weight)
        table.add_row(shown(port.name), port.role, port.law or "-", weight,
                      megabits(port.min_rate, "none"), megabits(port.max_rate, "none"),
                      megabits(port.capacity, "link speed"), port.qdisc or "-", " ".join(port.addresses) or "-",
                      counters)
    return table


def peer_table(ports: List[Port], peers: List[Peer]) -> Table:
    """Return a table of peers."""
    from rich.box import SIMPLE
    from rich.table import Table

    names = {port.ifindex: shown(port.name) for port in ports}
    table = Table(title="peers (rate in Mb/s)", box=SIMPLE, pad_edge=False)
    for head in ("VM", "address"):
        table.add_column(head, overflow="fold")
    for head in ("weight", "rate", "sent bytes", "packets", "drops", "received bytes", "packets", "marks"):
        table.add_column(head, justify="right")
    for one in peers:
        if one.vm in names:
            table.add_row(names[one.vm], one.address, str(one.weight or "-"), megabits(one.rate, "-"),
                          f"{one.tx_bytes:,}", f"{one.tx_packets:,}", f"{one.drops:,}", f"{one.rx_bytes:,}",
                          f"{one.rx_packets:,}", f"{one.rx_marks:,}")
    return table


def path_table(ports: List[Port], paths: List[Path]) -> Table:
    """Return a table of paths."""
    from rich.box import SIMPLE
    from rich.table import Table

    names = {port.ifindex: shown(port.name) for port in ports}
    table = Table(title="paths (Mb/s)", box=SIMPLE, pad_edge=False)
    for head in ("VM", "to", "state"):
        table.add_column(head, overflow="fold")
    for head in ("rate", "sent", "bytes", "packets", "held"):
        table.add_column(head, justify="right")
    for one in paths:
        if one.vm in names:
            to = f"tunnels to {one.prefix}" if one.tunnel else one.prefix or "the rest"
            state = "limited" if one.limited else "active" if one.sent_rate else "idle"
            table.add_row(names[one.vm], to, state, megabits(one.rate), megabits(one.sent_rate), f"{one.tx_bytes:,}",
                          f"{one.tx_packets:,}", f"{one.held:,}")
    return table


def as_document(ports: List[Port], limiters: List[Limiter], **more: Any) -> Dict[str, Any]:
    """Return what was read as a JSON document, more in front; rates in bytes/s, times in ns."""
    return {**more, "ports": [dataclasses.asdict(port) for port in ports],
            "limiters": [dataclasses.asdict(limiter) for limiter in limiters]}


@click.group()
def shim() -> None:
    """Show, set and watch the shim in this machine's Open vSwitch datapath.

    Where ovs-vswitchd carries the patches, it sets the shim from the database (shim-* keys) and overwrites what
    is set here when the keys change; these commands then are for looking.
    """


@shim.command()
@click.option("--of", help="Law whose period and knobs are shown; without it, the law in force.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; rates in bytes/s, times in ns.")
def show(of: Optional[str], as_json: bool) -> None:
    """Show settings, ports with their counters, and limiters."""
    settings, ports, limiters = with_shim(lambda client: read_all(client, of))
    if as_json:
        click.echo(json.dumps(as_document(ports, limiters, settings=dataclasses.asdict(settings)), indent=1))
        return
    console = make_console()
    console.print(settings_text(settings), highlight=False)
    any_law = settings.law != "none" or any(port.law not in (None, "default", "none") for port in ports)
    for port in ports:
        if any_law and port.qdisc == "unfit":
            console.print(f"{shown(port.name)}: the queuing discipline does not obey departure times, so no packet is "
                          "delayed there; set up fq, below mq if there are several queues")
    console.print(port_table(ports))
    console.print(limiter_table(ports, limiters, {}))


@shim.command("set")
@click.option("--law", help="Law of VMs that have none of their own; `sdngcc shim show` lists them.")
@click.option("--of", help="Law that --period and --knob are for; without it, the law then in force.")
@click.option("--period", type=Time(), help="T, such as 5ms; 0: the law's default.")
@click.option("--limiter", type=click.Choice(LIMITERS), help="What happens to a packet over the rate.")
@click.option("--burst", type=int, help="Depth of a policing bucket, bytes.")
@click.option("--burst-us", type=int, help="What a rate sends in so many us may leave in one go, 0 to 10000.")
@click.option("--horizon", type=Time(), help="Longest wait of a paced packet, such as 10ms.")
@click.option("--ahead/--no-ahead", default=None,
              help="Let a VM's small packets and young flows leave ahead of its bulk.")
@click.option("--ecn/--no-ecn", default=None, help="Make Not-ECT packets ECT, and give them back Not-ECT.")
@click.option("--inactive", type=Time(), help="Silence after which a VM's share goes to others, such as 1s.")
@click.option("--peers-max", type=int, help="Peers a VM may have, under laws that keep them.")
@click.option("--peer-idle", type=Time(), help="Silence after which a peer is collected, such as 10s.")
@click.option("--conversations/--no-conversations", default=None, help="Keep peers under laws that need none, too.")
@click.option("--protocol", type=int, help="IP protocol of control messages.")
@click.option("--accept-v0/--no-accept-v0", default=None, help="Obey unauthenticated v0 messages.")
@click.option("--key-file", type=click.File("r"), help="File with the 32 hex digits of the key; all 0: no key.")
@click.option("--key-other-file", type=click.File("r"),
              help="File with a second key, whose messages are accepted; all 0: none.")
@click.option("--codepoint", type=click.Choice(("0", "1")), help="Not-ECT packets become ECT(0) or ECT(1).")
@click.option("--waiting-max", type=int, help="Packets a VM may have waiting on one uplink, 16 to 1048576; 0: any.")
@click.option("--knob", "knobs", type=KnobValue(), multiple=True, metavar="NAME=VALUE", help="Knob of the law.")
@click.option("--json", "as_json", is_flag=True, help="Print the settings then in force as JSON.")
def set_settings(key_file: Optional[TextIO], key_other_file: Optional[TextIO], codepoint: Optional[str],
                 knobs: Tuple[Tuple[str, int], ...], as_json: bool, **given: Any) -> None:
    """Change settings: all that is named, or nothing.

    \b
      sdngcc shim set --law sdngcc --period 5ms --knob cut-full-ppm=100000
      sdngcc shim set --of eyeq --period 200us
    """
    given["key"], given["key_other"] = read_key(key_file), read_key(key_other_file)
    given["codepoint"] = None if codepoint is None else int(codepoint)
    if knobs:
        given["knobs"] = dict(knobs)
    if all(value is None for value in given.values()):
        raise click.UsageError("nothing to set; --help lists the options")

    def change(client: ShimClient) -> Settings:
        client.settings_set(**given)
        return client.settings_get(given["of"])

    settings = with_shim(change)
    click.echo(json.dumps(dataclasses.asdict(settings), indent=1) if as_json else settings_text(settings))


@shim.command("set-port")
@click.argument("device")
@click.option("--role", type=click.Choice(ROLES), help="What the port is to the shim; none frees its state.")
@click.option("--weight", type=int, help="Part of the uplink, 1 to 65535 (default 1).")
@click.option("--min", "min_rate", type=Rate(), help="Guarantee, such as 100M; 0: none.")
@click.option("--max", "max_rate", type=Rate(), help="Ceiling, such as 250M; 0: none.")
@click.option("--law", help="Of this VM alone; default: that of the settings, none: no law.")
@click.option("--capacity", type=Rate(), help="Of an uplink, such as 10G; 0: the link speed.")
@click.option("--overhead", type=int, help="Of an uplink: bytes a packet on the wire, 1 to 1000; 0: the device's.")
@click.option("--addresses", type=Addresses(), help="All that this VM may send from; '': none are set.")
@click.option("--json", "as_json", is_flag=True, help="Print the port as JSON.")
def set_port(device: str, as_json: bool, **given: Any) -> None:
    """Change what a port of the datapath is to the shim: all that is named, or nothing.

    \b
      sdngcc shim set-port eth1 --role uplink --capacity 10G
      sdngcc shim set-port tap0 --role vm --weight 2 --max 250M
      sdngcc shim set-port tap0 --addresses "10.0.0.5 10.0.1.0/24 2001:db8::/64"
    """
    if all(value is None for value in given.values()):
        raise click.UsageError("nothing to set; --help lists the options")

    def change(client: ShimClient) -> Optional[Port]:
        client.port_set(device, **given)
        return None if given["role"] == "none" else client.port_get(device)

    port = with_shim(change)
    if as_json:
        click.echo(json.dumps(port and dataclasses.asdict(port), indent=1))
    elif port:
        make_console().print(port_table([port]))


@shim.command("peers")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list; rates in bytes/s, times in ns.")
def show_peers(as_json: bool) -> None:
    """Show what each VM exchanges with each address, under laws that keep peers or with conversations."""
    ports, peers = with_shim(lambda client: (client.ports(), client.peers()))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in peers], indent=1))
        return
    make_console().print(peer_table(ports, peers))


@shim.command("paths")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list; rates in bytes/s, times in ns.")
def show_paths(as_json: bool) -> None:
    """Show the parts of what VMs send that controllers told of, by where they go."""
    ports, paths = with_shim(lambda client: (client.ports(), client.paths()))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in paths], indent=1))
        return
    make_console().print(path_table(ports, paths))


@shim.command("set-peer")
@click.argument("device")
@click.argument("address")
@click.option("--weight", type=int, help="1 to 65535; 0 takes it back, and the peer is collected when idle.")
@click.option("--forget", is_flag=True, help="Forget the peer with its weight and state.")
def set_peer(device: str, address: str, weight: Optional[int], forget: bool) -> None:
    """Give the address that a VM talks to a weight; the peer is then kept while idle.

    \b
      sdngcc shim set-peer tap0 10.0.0.9 --weight 3
      sdngcc shim set-peer tap0 10.0.0.9 --forget
    """
    if forget == (weight is not None):
        raise click.UsageError("either --weight or --forget is needed")
    if weight is None:
        with_shim(lambda client: client.peer_del(device, address))
    else:
        with_shim(lambda client: client.peer_set(device, address, weight))


def sent_between(before: List[Limiter], after: List[Limiter]) -> Dict[Tuple[int, int], float]:
    """Return the bytes/s that each (VM, uplink) sent between two readings."""
    old = {(one.vm, one.uplink): one for one in before}
    rates = {}
    for one in after:
        last = old.get((one.vm, one.uplink))
        if last and one.time > last.time and one.tx_bytes >= last.tx_bytes:
            rates[one.vm, one.uplink] = (one.tx_bytes - last.tx_bytes) * 1e9 / (one.time - last.time)
    return rates


@shim.command()
@click.option("--interval", type=click.FloatRange(0.01), default=1.0, show_default=True,
              help="Seconds between readings.")
@click.option("--count", type=click.IntRange(1), help="Readings; without it, until interrupted.")
@click.option("--peers", "with_peers", is_flag=True, help="Show what VMs exchange with each address, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON a reading.")
def monitor(interval: float, count: Optional[int], with_peers: bool, as_json: bool) -> None:
    """Watch the limiters, and peers if asked; `sent` is what each limiter sent since the reading before."""
    from rich.console import Group
    from rich.live import Live

    def watch(client: ShimClient) -> None:
        before: List[Limiter] = []
        with Live(console=make_console(), auto_refresh=False, transient=False) as live:
            number = 0
            while count is None or number < count:
                if number:
                    time.sleep(interval)
                ports, limiters = client.ports(), client.limiters()
                peers = client.peers() if with_peers else []
                if as_json:
                    more = {"peers": [dataclasses.asdict(one) for one in peers]} if with_peers else {}
                    click.echo(json.dumps(as_document(ports, limiters, **more)))
                else:
                    tables = [limiter_table(ports, limiters, sent_between(before, limiters))]
                    tables += [peer_table(ports, peers)] if with_peers else []
                    live.update(Group(*tables), refresh=True)
                before = limiters
                number += 1

    try:
        with_shim(watch)
    except KeyboardInterrupt:
        return
