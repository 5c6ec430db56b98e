# SPDX-License-Identifier: Apache-2.0
"""Whether the controller is alive, and ready for its work: for load balancers and supervisors, who bear no token.

What keeps it from its work is told by kind only; names and addresses are in /v1/status, for those who bear a token.
"""

from typing import Literal

import falcon
import pydantic

from sdngcc.controller.rest import models
from sdngcc.controller.rest.readiness import CAUSE, hindrances, warnings
from sdngcc.controller.rest.resource import Operation, Resource, Route, read_query, reply


class Alive(models.Answer):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Readiness(models.Answer):
    """Whether the controller can do its work."""

    ready: bool
    causes: list[CAUSE] = pydantic.Field(description="what keeps it from its work; /v1/status has the details")
    warnings: list[CAUSE] = pydantic.Field(description="what keeps it from a part of its work")


class Healthz(Resource):
    """/v1/healthz."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Say that the process answers."""
        read_query(request, models.Query)
        reply(response, Alive())


class Readyz(Resource):
    """/v1/readyz."""

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Say whether the controller can do its work; by the status, too."""
        read_query(request, models.Query)
        causes = list(dict.fromkeys(one.cause for one in hindrances(self._context)))
        response.status = falcon.HTTP_503 if causes else falcon.HTTP_200
        parts = list(dict.fromkeys(one.cause for one in warnings(self._context)))
        reply(response, Readiness(ready=not causes, causes=causes, warnings=parts))


ROUTES = (
    Route("/v1/healthz", Healthz, {"get": Operation("Whether the process answers.", Alive, open=True)}),
    Route(
        "/v1/readyz",
        Readyz,
        {"get": Operation("Whether it can do its work.", Readiness, open=True, others={503: Readiness})},
    ),
)
