# SPDX-License-Identifier: Apache-2.0
"""The WSGI application: resources at their paths, and refusals in JSON."""

import logging
import re
from typing import Any

import falcon

from sdngcc.controller.rest import (
    control,
    events,
    health,
    metrics,
    nodes,
    openapi,
    page,
    ports,
    status,
    switches,
    tenants,
    vms,
)
from sdngcc.controller.rest.auth import Guard
from sdngcc.controller.rest.reporter import Reporter
from sdngcc.controller.rest.resource import RestContext, Route, refuse

LOG = logging.getLogger(__name__)

ROUTES: tuple[Route, ...] = (
    *vms.ROUTES, *ports.ROUTES, *switches.ROUTES, *nodes.ROUTES, *status.ROUTES, *events.ROUTES, *openapi.ROUTES,
    *metrics.ROUTES, *health.ROUTES, *control.ROUTES, *tenants.ROUTES,
)  # fmt: skip


def _not_found(req: falcon.Request, resp: falcon.Response, **_: str) -> None:
    paths = ", ".join(re.sub("{.*}", "<name>", route.path) for route in ROUTES)
    raise refuse(404, f"nothing is at {req.path}", allowed=paths)


def _as_json(request: falcon.Request, response: falcon.Response, error: falcon.HTTPError) -> None:
    if isinstance(error, falcon.HTTPMethodNotAllowed):
        raised = refuse(405, f"{request.method} is not allowed at {request.path}", allowed=response.get_header("Allow"))
    else:
        raised = refuse(error.status_code, error.description or error.title or "refused")
    response.content_type = falcon.MEDIA_JSON
    response.text = raised.text


class _Headers:
    """Falcon middleware: headers of every answer."""

    def process_response(
        self, request: falcon.Request, response: falcon.Response, resource: Any, succeeded: bool
    ) -> None:
        """Keep answers out of caches, and browsers from guessing at them."""
        response.set_header("X-Content-Type-Options", "nosniff")
        response.set_header("Referrer-Policy", "no-referrer")
        response.set_header("Cache-Control", "no-store")


def make_app(context: RestContext, reporter: Reporter, guard: Guard, tokens: bool) -> falcon.App:
    """Return the WSGI application; ``tokens`` tells whether requests must bear one."""
    app: falcon.App = falcon.App(middleware=[guard, _Headers()])

    def broken(req: falcon.Request, resp: falcon.Response, error: Exception, params: Any) -> None:
        context.engine.counters["internal_errors"] += 1
        LOG.error("internal error at %s %s; the controller goes on", req.method, req.path, exc_info=error)
        raise refuse(500, "internal error; the controller's log has it")

    app.set_error_serializer(_as_json)
    app.add_error_handler(Exception, broken)
    for route in ROUTES:
        resource = route.resource(context, reporter)
        resource.operations = route.operations
        if isinstance(resource, openapi.OpenApi):
            resource.document = openapi.make_document(ROUTES, tokens)
        app.add_route(route.path, resource)
    page.add_to(app)
    app.add_sink(_not_found)
    return app
