# SPDX-License-Identifier: Apache-2.0
"""The controller itself: settings in force, counters, who changed what."""

from typing import TYPE_CHECKING, Annotated, Any

import falcon
import pydantic

from sdngcc.controller.engine import Engine
from sdngcc.controller.framework.admission import Admission, Reason
from sdngcc.controller.rest import models
from sdngcc.controller.rest.audit import KEPT
from sdngcc.controller.rest.control import show_reload
from sdngcc.controller.rest.readiness import databases, hindrances, warnings
from sdngcc.controller.rest.resource import Operation, Resource, Route, dpid_text, read_query, reply
from sdngcc.controller.settings import Settings

if TYPE_CHECKING:
    from sdngcc.controller.framework.managers import ManagerListener

_STALE_SHOWN = 64


class SettingsView(Resource):
    """/v1/settings."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show the settings in force; of secrets only the files' names."""
        read_query(request, models.Query)
        reply(response, self._engine.settings)


def _counts(admission: Admission) -> dict[str, Any]:
    """Return what every listener counts."""
    return {
        "open": admission.open,
        "unready": admission.unready,
        "limit": admission.limit,
        "limit_a_peer": admission.limit_a_peer,
        "refused": {reason.value: admission.refused[reason] for reason in Reason},
    }


def _show_connections(admission: Admission) -> models.Connections:
    return models.Connections(
        **_counts(admission),
        unserved=admission.unserved,
        id_conflicts=[
            models.IdConflict(switch=dpid_text(one.dpid), kept=one.kept, refused=one.refused, count=one.count)
            for one in admission.conflicts.values()
        ],
    )


def _show_source(engine: Engine, now_ns: int) -> models.Source:
    return models.Source(
        **engine.source.view(now_ns),
        measured_ms=engine.staleness.measured_ns(now_ns) / 1e6 or None,
        usable_ms=engine.staleness.usable_ns / 1e6,
        stale=[
            models.StaleMarks(switch=dpid_text(one.dpid), interval_ms=one.interval_ns / 1e6, silent=one.silent)
            for one in engine.staleness.stale(now_ns)[:_STALE_SHOWN]
        ],
    )


def _show_managers(managers: "ManagerListener") -> models.DatabaseConnections:
    admission, nodes = managers.admission, managers.nodes
    return models.DatabaseConnections(
        **_counts(admission),
        nodes=len(nodes.by_name),
        conflicts=nodes.conflicts,
    )


class Status(Resource):
    """/v1/status."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show counters since the start, and whether the controller can do its work."""
        read_query(request, models.Query)
        engine = self._engine
        switches, cluster, now = engine.switches.values(), self._context.cluster, engine.clock()
        not_ready = [one.text for one in hindrances(self._context)]
        reply(
            response,
            models.Status(
                uptime_s=_seconds(engine.started_ns, now),
                ready=not not_ready,
                not_ready=not_ready,
                warnings=[one.text for one in warnings(self._context)],
                databases=[
                    models.Database(
                        remote=one.remote, kind=one.kind, state=one.state, changes=one.changes,
                        since_s=_seconds(one.since_ns, now), fault=one.fault,
                    )
                    for one in databases(self._context)
                ],
                lease=cluster and models.Lease(
                    held=cluster.is_live(),
                    since_s=_seconds(cluster.lease_changed_ns, now),
                    switches=cluster.acting_for(),
                ),
                switches=len(switches),
                vms=sum(len(switch.vms) for switch in switches),
                hosts=len(engine.relations.hosts),
                pairs=engine.relations.pair_count(),
                links=len(engine.topology.links()),
                event_clients=len(self._reporter.broker.clients),
                rest_connections=self._context.rest_connections(),
                message_epoch=engine.notifier.numbering.epoch,
                message_epoch_raised=engine.notifier.numbering.raised,
                message_sequence=engine.notifier.numbering.sequence,
                connections=_show_connections(self._context.admission),
                reload=show_reload(self._context),
                database_connections=self._context.managers and _show_managers(self._context.managers),
                admit_file_fault=self._context.allowed.fault,
                underlay_file_fault=self._context.underlay.fault,
                mark_source=_show_source(engine, now),
                polls=engine.poll_counts(),
                counters=dict(sorted(engine.counters.items())),
                forwarding=dict(sorted(engine.forwarder.counters.items())),
            ),
        )


def _seconds(start_ns: int, now_ns: int) -> float:
    return round(max(0, now_ns - start_ns) / 1e9, 3)


class AuditQuery(models.Query):
    """How many records."""

    n: Annotated[int, pydantic.Field(ge=1, le=KEPT), models.Decimal] = pydantic.Field(
        100, description="how many, the last ones"
    )


class AuditView(Resource):
    """/v1/audit."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show the last changes of policy."""
        query = read_query(request, AuditQuery)
        reply(response, models.Audit(records=list(self._context.audit.records)[-query.n :]))


ROUTES = (
    Route("/v1/audit", AuditView, {"get": Operation("Show the last changes of policy.", models.Audit, AuditQuery)}),
    Route("/v1/settings", SettingsView, {"get": Operation("Show the settings in force.", Settings)}),
    Route("/v1/status", Status, {"get": Operation("Show states, and counters since the start.", models.Status)}),
)
