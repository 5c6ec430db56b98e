# SPDX-License-Identifier: Apache-2.0
"""What an operator may ask of the controller itself: to read its settings and files again."""

import falcon

from sdngcc.controller.rest import models
from sdngcc.controller.rest.audit import now_text
from sdngcc.controller.rest.resource import Operation, Resource, RestContext, Route, read_query, refuse, reply
from sdngcc.controller.settings.rest import Role


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
        self._context.audit.add(
            models.AuditRecord(
                time=now_text(),
                who=request.context.who,
                address=request.remote_addr,
                action="reload",
                result="done" if outcome.result == "done" else "refused",
                error=outcome.error,
            )
        )
        if outcome.error is not None:
            raise refuse(409, outcome.error, allowed="settings and files that can be used; all stays as it was")
        reply(response, show_reload(self._context))


ROUTES = (
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
