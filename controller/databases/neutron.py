# SPDX-License-Identifier: Apache-2.0
"""Networks, ports and floating addresses of Neutron's API, by openstacksdk; a process of its own (telling.py).

Each period all of them are asked for, page by page and only the fields that are used. A round that fails in the middle
changes nothing; the next one comes later each time, up to BACKOFF_MAX_S. Where that is wanted the names of servers are
asked of Nova in the end; while it fails they stay as they were, and Neutron counts as before.
"""

import functools
import logging
import os
import signal
import time
from typing import Any, Callable, Iterator, Mapping, NoReturn, Optional

from sdngcc.controller.databases.health import State
from sdngcc.controller.databases.neutron_orders import Orders
from sdngcc.controller.databases.ports import Report
from sdngcc.controller.databases.telling import TURN_S, Teller, ended, limit, read_line, write_all
from sdngcc.controller.network.directory import (
    ADDRESSES_MAX,
    ALLOWED_MAX,
    FLOATING_MAX,
    TEXT_MAX,
    Allowed,
    CloudPort,
    Segment,
    Trunk,
    address_of,
    allowed_of,
    clean_text,
    mac_of,
)
from sdngcc.controller.network.tenants import is_name

PAGE = 1000
ITEMS_MAX = 131_072  # ports, or networks: those that are no VM's among them
REQUEST_S = 10  # for a connection, and between two parts of an answer
BACKOFF_S = 2
BACKOFF_MAX_S = 300

NETWORK_FIELDS = ("id", "name", "provider:network_type", "provider:segmentation_id")
PORT_FIELDS = (
    "id", "name", "network_id", "mac_address", "fixed_ips", "project_id", "device_id", "device_owner",
    "binding:vif_details", "allowed_address_pairs", "trunk_details",
)  # fmt: skip
FLOATING_FIELDS = ("id", "port_id", "floating_ip_address")

Items = Iterator[Mapping[str, Any]]
# Returns one page: (path, parameters) -> the JSON of the answer.
Get = Callable[[str, dict[str, Any]], Any]


class Unreadable(ValueError):
    """An answer that is no list of what was asked for."""


class Missing(Unreadable):
    """There is no such collection."""


class Overdue(Exception):
    """A round that takes too long."""


def pages(get: Get, what: str, asked: Mapping[str, Any]) -> Items:
    """Yield all items of a collection; raises Unreadable, also when there are more than ITEMS_MAX.

    ``asked`` are parameters of the request. A page that is shorter than was asked for is the last one unless the answer
    names a next one, as a server does whose largest page is shorter.
    """
    marker: dict[str, str] = {}
    count = 0
    while True:
        answer = get(f"/{what}", {**asked, "limit": PAGE, **marker})
        items = answer.get(what) if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            raise Unreadable(f"the answer to /{what} is no list of objects")
        for one in items:
            count += 1
            if count > ITEMS_MAX:
                raise Unreadable(f"there are more than {ITEMS_MAX} {what}")
            yield one
        if not items or (len(items) < PAGE and not _names_next(answer.get(f"{what}_links"))):
            return
        last = items[-1].get("id")
        if not isinstance(last, str) or marker.get("marker") == last:
            raise Unreadable(f"the pages of /{what} go round in circles")
        marker = {"marker": last}


def _names_next(links: Any) -> bool:
    """Tell whether links of an answer lead to a next page."""
    return isinstance(links, list) and any(isinstance(one, dict) and one.get("rel") == "next" for one in links)


def fields(*names: str) -> dict[str, Any]:
    """Return the parameters by which Neutron tells some fields only."""
    return {"fields": list(names)}


def segments_of(network: Mapping[str, Any], bound_by_ovn: bool) -> tuple[Segment, ...]:
    """Return by which segments a network is reached on the wire, none when Neutron does not know.

    The key of OVN's tunnels is OVN's choice, whatever Neutron's segmentation id is.
    """
    kind, number = network.get("provider:network_type"), network.get("provider:segmentation_id")
    if kind == "flat":
        return ((0, 0),)
    if not isinstance(number, int) or isinstance(number, bool):
        return ()
    if kind == "vlan" and 0 < number < 4095:
        return ((number, 0),)
    if kind in ("vxlan", "geneve", "gre") and not bound_by_ovn and 0 < number < 1 << 32:
        return ((0, number),)
    return ()


def trunks_of(item: Mapping[str, Any]) -> dict[str, Trunk]:
    """Return the trunk of each subport that Neutron says a port is the parent of, by the subports' ids."""
    found = {}
    details, parent = item.get("trunk_details"), item.get("id")
    subports = details.get("sub_ports") if isinstance(details, dict) else None
    if not isinstance(parent, str) or not 0 < len(parent) <= TEXT_MAX:
        return {}
    for one in subports if isinstance(subports, list) else ():
        port_id, vlan = (one.get("port_id"), one.get("segmentation_id")) if isinstance(one, dict) else (None, None)
        if isinstance(port_id, str) and isinstance(vlan, int) and vlan is not True and 0 < vlan < 4095:
            found[port_id] = Trunk(parent, vlan)
    return found


def _allowed(item: Mapping[str, Any], mac: Optional[bytes]) -> tuple[Allowed, ...]:
    """Return the addresses that port security lets a port use beside its own."""
    pairs = item.get("allowed_address_pairs") or []
    if not isinstance(pairs, list):
        raise ValueError("allowed_address_pairs is no list")
    found = []
    for one in pairs[:ALLOWED_MAX]:
        address, other = (one.get("ip_address"), one.get("mac_address")) if isinstance(one, dict) else (None, None)
        theirs = mac_of(other) if isinstance(other, str) else None
        if isinstance(address, str):
            found.append(allowed_of(address, theirs if theirs and theirs != mac else b""))
    return tuple(dict.fromkeys(one for one in found if one is not None))


def port_of(item: Mapping[str, Any], networks: Mapping[str, Mapping[str, Any]]) -> Optional[CloudPort]:
    """Return what Neutron says of a port, None for one that is no VM's; raises ValueError for what no port can be."""
    port_id, owner = item.get("id"), item.get("device_owner") or ""
    if not isinstance(port_id, str) or not 0 < len(port_id) <= TEXT_MAX or not isinstance(owner, str):
        raise ValueError("id or device_owner is no text")
    if owner.startswith(("network:", "neutron:")):
        return None
    network_id = clean_text(item.get("network_id") or "")
    network = networks.get(network_id, {})
    details = item.get("binding:vif_details")
    drivers = details.get("bound_drivers") if isinstance(details, dict) else None
    # Where Neutron does not say who bound the port, it may be OVN.
    bound_by_ovn = not isinstance(drivers, dict) or not drivers or "ovn" in drivers.values()
    mac = mac_of(clean_text(item.get("mac_address") or ""))
    fixed = item.get("fixed_ips") or []
    if not isinstance(fixed, list):
        raise ValueError("fixed_ips is no list")
    given = [one.get("ip_address") for one in fixed[:ADDRESSES_MAX] if isinstance(one, dict)]
    addresses = [address_of(one) for one in given if isinstance(one, str)]
    tenant = item.get("project_id")
    return CloudPort(
        port_id,
        clean_text(item.get("name") or ""),
        clean_text(item.get("device_id") or ""),
        clean_text(network.get("name") or ""),
        network_id,
        segments_of(network, bound_by_ovn),
        () if mac is None else (mac,),
        tuple(dict.fromkeys(one for one in addresses if one is not None)),
        tenant if isinstance(tenant, str) and is_name(tenant) else "",
        allowed=_allowed(item, mac),
    )


class Reader:
    """Asks by ``get`` and gives what is there to ``teller``; ``clock`` counts seconds.

    ``nova`` asks Nova, None: nobody does.
    """

    def __init__(
        self,
        get: Get,
        teller: Teller,
        period_s: float,
        clock: Callable[[], float] = time.monotonic,
        nova: Optional[Get] = None,
    ) -> None:
        self._get = get
        self._nova = nova
        self._servers: dict[str, str] = {}  # names by id
        self._teller = teller
        self._period_s = period_s
        self._clock = clock
        self._due_s = clock()
        self._failures = 0
        self._state: State = "connecting"
        self._fault: Optional[str] = None

    def report(self) -> Report:
        """Return the state of Neutron."""
        return Report(self._state, self._fault, 0)

    def run(self) -> None:
        """Ask for everything, if it is time to."""
        if self._clock() < self._due_s:
            return
        try:
            found = self._read()
        except Exception as error:  # whatever openstacksdk and its libraries raise: the next round may work
            self._failures += 1
            self._state, self._fault = state_of(error), clean_text(f"{type(error).__name__}: {error}")
            self._due_s = self._clock() + min(BACKOFF_S * 2 ** min(self._failures - 1, 16), BACKOFF_MAX_S)
            return
        self._failures, self._state, self._fault = 0, "connected", self._read_servers()
        self._teller.give_all(one._replace(server=self._servers.get(one.device, "")) for one in found)
        self._due_s = self._clock() + self._period_s

    def _read(self) -> list[CloudPort]:
        networks = {
            one["id"]: one
            for one in pages(self._get, "networks", fields(*NETWORK_FIELDS))
            if isinstance(one.get("id"), str)
        }
        found: dict[str, CloudPort] = {}
        trunks: dict[str, Trunk] = {}
        for item in pages(self._get, "ports", fields(*PORT_FIELDS)):
            trunks.update(trunks_of(item))
            try:
                port = port_of(item, networks)
            except ValueError:
                self._teller.refused += 1
                continue
            if port is not None:
                found[port.id] = port
        floating = self._read_floating()
        return [
            port._replace(trunk=trunks.get(port.id), associated=tuple(floating.get(port.id, ()))[:FLOATING_MAX])
            for port in found.values()
        ]

    def _read_floating(self) -> dict[str, list[bytes]]:
        """Return the floating addresses of each port; a Neutron without routers has none."""
        found: dict[str, list[bytes]] = {}
        try:
            for item in pages(self._get, "floatingips", fields(*FLOATING_FIELDS)):
                port_id, text = item.get("port_id"), item.get("floating_ip_address")
                address = address_of(text) if isinstance(text, str) else None
                if isinstance(port_id, str) and address is not None:
                    found.setdefault(port_id, []).append(address)
        except Missing:
            pass
        return found

    def _read_servers(self) -> Optional[str]:
        """Take the names of servers as Nova has them; return what is wrong with it."""
        if self._nova is None:
            return None
        try:
            self._servers = {
                one["id"]: clean_text(one["name"])
                for one in pages(self._nova, "servers", {"all_tenants": "True"})
                if isinstance(one.get("id"), str) and isinstance(one.get("name"), str)
            }
        except Exception as error:  # as in run()
            return clean_text(f"Nova: {type(error).__name__}: {error}; names of servers stay as they were")
        return None


def state_of(error: Exception) -> State:
    """Return what an exception of a round means."""
    from keystoneauth1 import exceptions

    if isinstance(error, (Overdue, exceptions.ConnectTimeout)):
        return "hung"
    return "unreachable" if isinstance(error, exceptions.ConnectFailure) else "unusable"


def asker(connect: Callable[[], Any]) -> Get:
    """Return what asks the service that ``connect`` returns an adapter for, when it is asked first."""
    made: list[Any] = []

    def get(path: str, parameters: dict[str, Any]) -> Any:
        if not made:
            made.append(connect())
        answer = made[0].get(path, params=parameters)
        if answer.status_code != 200:
            kind = Missing if answer.status_code == 404 else Unreadable
            raise kind(f"{path} was answered by {answer.status_code} {answer.reason}")
        return answer.json()

    return get


def askers(orders: Orders) -> tuple[Get, Optional[Get]]:
    """Return what asks the Neutron that orders name, and the Nova if they do; no connection is made yet."""
    if orders.endpoint:
        return asker(lambda: _without_authentication(orders.endpoint)), None
    cloud = functools.lru_cache(maxsize=None)(lambda: _of_cloud(orders))
    return asker(lambda: cloud().network), asker(lambda: cloud().compute) if orders.nova else None


def _of_cloud(orders: Orders) -> Any:
    import openstack
    from openstack.config import OpenStackConfig

    config = OpenStackConfig(
        config_files=[orders.clouds_file], secure_files=[], vendor_files=[], load_envvars=False, app_name="sdngcc"
    )
    region = config.get_one(cloud=orders.cloud, api_timeout=REQUEST_S)
    return openstack.connection.Connection(config=region)


def _without_authentication(endpoint: str) -> Any:
    from keystoneauth1 import adapter, noauth, session

    base = endpoint.rstrip("/")
    made = session.Session(auth=noauth.NoAuth(endpoint=base if base.endswith("/v2.0") else base + "/v2.0"))
    made.timeout = REQUEST_S
    return adapter.Adapter(made, service_type="network", raise_exc=False)


def _overdue(*_: Any) -> NoReturn:
    raise Overdue("not all that was asked for came in time")


def main() -> int:
    """Read until standard input ends; return the exit status."""
    limit()
    logging.getLogger("keystoneauth").setLevel(logging.CRITICAL)  # what fails is told in reports
    orders = Orders.load(read_line(0))
    signal.signal(signal.SIGALRM, _overdue)
    teller = Teller(lambda data: write_all(1, data))
    get, nova = askers(orders)
    reader = Reader(get, teller, orders.period_s, nova=nova)
    while not ended(0, TURN_S):
        signal.alarm(orders.round_s)
        reader.run()
        signal.alarm(0)
        teller.turn(reader.report())
    return 0


if __name__ == "__main__":
    status = main()
    os._exit(status)
