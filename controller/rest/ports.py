# SPDX-License-Identifier: Apache-2.0
"""Ports of all switches, with their marks."""

import falcon

from sdngcc.controller.network import topology
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rest import models
from sdngcc.controller.rest.resource import (
    Operation,
    Resource,
    RestContext,
    Route,
    dpid_text,
    page,
    read_query,
    reply_list,
)


def show(context: RestContext, place: Hop, port: topology.Port) -> models.Port:
    """Return a port as REST shows it."""
    engine, (dpid, number) = context.engine, place
    peer, pace = engine.topology.peer(dpid, number), context.live.paces.get(place)
    reading = engine.source.reading(dpid, number)
    return models.Port(
        switch=dpid_text(dpid),
        port=number,
        name=port.name,
        up=port.up,
        peer=peer and models.End(switch=dpid_text(peer[0]), port=peer[1]),
        sources=len(engine.attribution.machines_behind(place)),
        queues=list(reading.queues) if reading else [],
        marks=reading and reading.marks,
        ce_arrived=reading and reading.ce_arrived,
        marks_per_s=pace and pace.marks_per_s,
        congested=pace and pace.congested,
        tx_bps=pace and pace.tx_bps,
        tx_packets=reading and reading.packets,
        tx_bytes=reading and reading.bytes,
        drops=reading and reading.drops,
        backlog_bytes=reading and reading.backlog_bytes,
        backlog_packets=reading and reading.backlog_packets,
    )


class Ports(Resource):
    """/v1/ports."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List the ports that fit all filters."""
        query = read_query(request, models.PortQuery)
        context = self._context
        found = [(hop, port) for hop, port in context.ports_in_turns() if self._fits(hop, port.name, query)]
        shown, following = page(found, query, lambda item: item[0])
        answer = models.Ports(ports=[], total=len(found), next=following)
        reply_list(response, context, answer, "ports", (show(context, *item) for item in shown))

    def _fits(self, place: Hop, name: str, query: models.PortQuery) -> bool:
        pace = self._context.live.paces.get(place)
        return (
            (query.switch is None or int(query.switch, 16) == place[0])
            and (query.name is None or query.name == name)
            and (query.congested is None or query.congested == bool(pace and pace.congested))
        )


ROUTES = (Route("/v1/ports", Ports, {"get": Operation("List ports.", models.Ports, models.PortQuery)}),)
