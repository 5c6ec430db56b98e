# SPDX-License-Identifier: Apache-2.0
"""Connected switches, how their polls go, and the links between them."""

from typing import Optional

import falcon

from sdngcc.controller.network.inventory import SwitchRecord
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rest import models
from sdngcc.controller.rest.resource import Operation, Resource, RestContext, Route, dpid_text, read_query, reply


def show_poll(context: RestContext, dpid: int) -> Optional[models.Poll]:
    """Return how the polls of a switch go; None when it is not polled."""
    monitor = context.engine.monitor
    poll = monitor.polls.get(dpid)
    if poll is None:
        return None
    return models.Poll(
        period_ms=1000.0 if poll.idle else poll.factor * monitor.period_ns / 1e6,
        polls=poll.polls,
        replies=poll.replies,
        skipped=poll.skipped,
        lost=poll.lost,
        reply_max_us=poll.reply_max_ns // 1000,
    )


def show(context: RestContext, switch: SwitchRecord, links: list[models.SwitchLink]) -> models.Switch:
    """Return a switch as REST shows it."""
    return models.Switch(
        switch=dpid_text(switch.dpid),
        hypervisor=switch.hypervisor,
        settled=switch.settled,
        reports_marks=switch.marks,
        reports_vms=switch.vm_state,
        vms=sorted(vm.id for vm in switch.vms.values()),
        links=links,
        poll=show_poll(context, switch.dpid),
    )


class Switches(Resource):
    """/v1/switches."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List the connected switches."""
        read_query(request, models.Query)
        links: dict[int, list[models.SwitchLink]] = {}
        for one, other in self._engine.topology.links():
            for near, far in ((one, other), (other, one)):
                link = models.SwitchLink(port=near[1], switch=dpid_text(far[0]), peer_port=far[1])
                links.setdefault(near[0], []).append(link)
        switches = [switch for _, switch in sorted(self._engine.switches.items())]
        shown = [show(self._context, switch, links.get(switch.dpid, [])) for switch in self._context.in_turns(switches)]
        reply(response, models.Switches(switches=shown))


class Topology(Resource):
    """/v1/topology."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show switches and links."""
        read_query(request, models.Query)
        engine = self._engine
        reply(
            response,
            models.Topology(
                version=engine.topology.version,
                switches=[
                    models.TopologySwitch(switch=dpid_text(dpid), hypervisor=switch.hypervisor, vms=len(switch.vms))
                    for dpid, switch in sorted(engine.switches.items())
                ],
                links=[self._link(one, other) for one, other in engine.topology.links()],
            ),
        )

    def _link(self, one: Hop, other: Hop) -> models.TopologyLink:
        near, far = self._context.live.paces.get(one), self._context.live.paces.get(other)
        return models.TopologyLink(
            ends=(
                models.End(switch=dpid_text(one[0]), port=one[1]),
                models.End(switch=dpid_text(other[0]), port=other[1]),
            ),
            congested=(near and near.congested, far and far.congested),
            tx_bps=(near and near.tx_bps, far and far.tx_bps),
        )


ROUTES = (
    Route("/v1/switches", Switches, {"get": Operation("List connected switches.", models.Switches)}),
    Route("/v1/topology", Topology, {"get": Operation("Show switches and links.", models.Topology)}),
)
