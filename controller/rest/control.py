# SPDX-License-Identifier: Apache-2.0
"""What an operator may ask of the controller itself: to read its settings and files again, and to hand over."""

from typing import Literal, Optional

import falcon
import pydantic

from sdngcc.controller.rest import models
from sdngcc.controller.rest.audit import now_text
from sdngcc.controller.rest.changes import read_model
from sdngcc.controller.rest.resource import (
    Operation,
    Resource,
    RestContext,
    Route,
    dpid_text,
    read_body,
    read_query,
    refuse,
    reply,
)
from sdngcc.controller.settings.rest import Role

_BODY_MAX_BYTES = 4096


def show_reload(context: RestContext) -> models.Reload:
    """Return how reading again went."""
    reloader = context.reloader
    last = None if reloader is None else reloader.last
    return models.Reload(
        done=0 if reloader is None else reloader.counts["done"],
        failed=0 if reloader is None else reloader.counts["failed"],
        last=None if last is None else models.ReloadOutcome(
            time=last.time, by=last.by, result=last.result, changed=list(last.changed), error=last.error
        ),
        restart_needed=[] if reloader is None else list(reloader.restart_needed),
    )  # fmt: skip


def _record(
    context: RestContext,
    request: falcon.Request,
    action: Literal["reload", "drain", "resume"],
    error: Optional[str] = None,
) -> None:
    """Record an action in the audit log."""
    context.audit.add(
        models.AuditRecord(
            time=now_text(),
            who=request.context.who,
            address=request.remote_addr,
            action=action,
            result="done" if error is None else "refused",
            error=error,
        )
    )


class DrainWanted(pydantic.BaseModel):
    """The body of PUT /v1/drain."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    draining: bool


class DrainState(models.Answer):
    """Whether the controller is drained, and how far."""

    draining: bool
    done: bool = pydantic.Field(description="nothing is left that another controller could take")
    alone: bool = pydantic.Field(description="in no cluster: it tells machines nothing more, and forwards")
    since_s: float = pydantic.Field(description="how long it has been so")
    held: list[models.DatapathId] = pydantic.Field(description="switches still to be handed over")
    unclaimed: list[models.DatapathId] = pydantic.Field(description="those that no other controller is connected to")


class DrainView(Resource):
    """/v1/drain."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show whether the controller is drained."""
        read_query(request, models.Query)
        reply(response, self._show())

    def on_put(self, request: falcon.Request, response: falcon.Response) -> None:
        """Begin to drain, or resume."""
        read_query(request, models.Query)
        wanted = read_model(request, read_body(request, _BODY_MAX_BYTES), DrainWanted).draining
        if self._context.drain is not None:
            self._context.drain.set(wanted, request.context.who)
        _record(self._context, request, "drain" if wanted else "resume")
        reply(response, self._show())

    def _show(self) -> DrainState:
        drain = self._context.drain
        if drain is None:
            raise refuse(503, "this process has nothing to hand over")
        state = drain.state()
        return DrainState(
            draining=state.draining,
            done=state.done,
            alone=drain.alone,
            since_s=round((self._engine.clock() - state.since_ns) / 1e9, 3),
            held=[dpid_text(dpid) for dpid in state.held],
            unclaimed=[dpid_text(dpid) for dpid in state.unclaimed],
        )


class ReloadView(Resource):
    """/v1/reload."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show how reading again went."""
        read_query(request, models.Query)
        reply(response, show_reload(self._context))

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        """Read settings, keys, tokens and certificates again."""
        read_query(request, models.Query)
        reloader = self._context.reloader
        if reloader is None:
            raise refuse(503, "nothing was read at the start, so nothing can be read again")
        outcome = reloader.run(request.context.who)
        _record(self._context, request, "reload", outcome.error)
        if outcome.error is not None:
            raise refuse(409, outcome.error, allowed="settings and files that can be used; all stays as it was")
        reply(response, show_reload(self._context))


ROUTES = (
    Route(
        "/v1/drain",
        DrainView,
        {
            "get": Operation("Show whether the controller is drained, and how far.", DrainState),
            "put": Operation(
                "Hand all switches over to the other controllers of the cluster, or take switches again.",
                DrainState,
                body=DrainWanted,
                refusals=(400, 408, 413, 415),
                role=Role.ADMIN,
            ),
        },
    ),
    Route(
        "/v1/reload",
        ReloadView,
        {
            "get": Operation("Show how reading settings and files again went.", models.Reload),
            "post": Operation(
                "Read settings, keys, tokens and certificates again, as SIGHUP does: all come into force, or none.",
                models.Reload,
                refusals=(409,),
                role=Role.ADMIN,
            ),
        },
    ),
)
