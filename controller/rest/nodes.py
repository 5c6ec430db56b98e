# SPDX-License-Identifier: Apache-2.0
"""Compute nodes whose databases connect to the controller."""

import falcon

from sdngcc.controller.databases.nodes import Node
from sdngcc.controller.rest import models, node_models
from sdngcc.controller.rest.resource import Operation, Resource, Route, dpid_text, read_query, refuse, reply
from sdngcc.controller.settings.rest import Role


class Nodes(Resource):
    """/v1/nodes."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """List the nodes."""
        read_query(request, models.Query)
        managers = self._context.managers
        found = managers.nodes.listed() if managers else []
        reply(response, node_models.Nodes(nodes=[self._show(node) for node in self._context.in_turns(found)]))

    def _show(self, node: Node) -> node_models.Node:
        engine, health = self._engine, node.client.health
        switches = [engine.switches.get(dpid) for dpid in sorted(node.dpids)]
        return node_models.Node(
            node=node.name,
            certificate=node.identity and node.identity.name,
            address=node.address,
            state=health.state,
            since_s=round(max(0, engine.clock() - health.since_ns) / 1e9, 3),
            connections=node.connections,
            switches=[
                node_models.NodeSwitch(switch=dpid_text(dpid), connected=switch is not None)
                for dpid, switch in zip(sorted(node.dpids), switches)
            ],
            refused=[
                node_models.NodeRefusal(switch=dpid_text(dpid), why=why) for dpid, why in sorted(node.refused.items())
            ],
            vms=sum(len(switch.vms) for switch in switches if switch is not None),
        )


class OneNode(Resource):
    """/v1/nodes/<name of a node>."""

    def on_delete(self, request: falcon.Request, response: falcon.Response, node: str) -> None:
        """Forget a node that is gone: its name and its bridges are free for whoever comes next."""
        read_query(request, models.Query)
        context, managers = self._context, self._context.managers
        found = managers.nodes.by_name.get(node) if managers else None
        if managers is None or found is None:
            raise refuse(404, f'no node has the name "{node}"', field="node", allowed="what GET /v1/nodes lists")
        if found.client.is_connected:
            raise refuse(
                409, f"node {node} is connected from {found.address}; nothing was forgotten", field="node",
                allowed="nodes that are not connected; to keep this one out take its certificate off admit_file",
            )  # fmt: skip
        for place, change in list(context.pending.items()):
            if change.doubt.is_of(found.client):
                del context.pending[place]
                error = "the node was forgotten before its database told"
                self._reporter.record_change(
                    change.vm, change.before, None, change.who, change.address, error, "unknown", change.time
                )
        managers.forget(found)
        reply(response, node_models.Forgotten(node=node))


ROUTES = (
    Route("/v1/nodes", Nodes, {"get": Operation("List the compute nodes that connect.", node_models.Nodes)}),
    Route(
        "/v1/nodes/{node:path}",
        OneNode,
        {
            "delete": Operation(
                "Forget a compute node that is gone.", node_models.Forgotten, refusals=(404, 409), role=Role.ADMIN
            )
        },
    ),
)
