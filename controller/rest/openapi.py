# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI 3.1 document, made of the routes and of the very models that validate requests and answers."""

import re
from typing import Any, Iterable

import falcon
import pydantic
from pydantic.json_schema import models_json_schema

from sdngcc import __version__
from sdngcc.controller.network.tenants import NAME_PATTERN
from sdngcc.controller.rest import event_models, models
from sdngcc.controller.rest.resource import Operation, Resource, RestContext, Route, read_query, reply, role_needed

_REFERENCE = "#/components/schemas/{model}"

# Refusals of every request: no token, another site's page, a name that is not this server's, a wrong parameter.
_ALWAYS = (403, 421, 422)

_MEANS = {
    207: "Not all was stored: the results tell of each VM.",
    400: "The body is no JSON object.",
    401: "A token is needed, or it is not valid.",
    403: "The token's role does not suffice, or a web page of another site asks.",
    404: "Nothing has this name.",
    408: "The body did not come in time.",
    409: "The name fits several VMs, or the change contradicts what is stored or connected.",
    413: "The body is too long.",
    415: "The body is of another type.",
    421: "The Host header names another server.",
    422: "A parameter or field is unknown or out of range.",
    503: "It cannot be done now, and was not done.",
    504: "The change was sent and not answered: whether it is stored is unknown; the audit log will tell.",
}

# What stands in a path for a name, in words and as a schema.
_NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "vm": (
        "id or the beginning of a UUID, <switch>:<port name>, MAC, IP address or port name",
        {"type": "string", "minLength": 1},
    ),
    "tenant": ("name of a tenant, a project's id in OpenStack", {"type": "string", "pattern": NAME_PATTERN}),
    "node": ("name of a node, as GET /v1/nodes lists it", {"type": "string", "minLength": 1}),
}

# Events' data: in the document for whoever reads the stream.
_EVENTS: tuple[type[pydantic.BaseModel], ...] = (
    event_models.VmsEvent, event_models.PortsEvent, event_models.SwitchEvent, models.AuditRecord,
    event_models.NoticeEvent, event_models.GapEvent,
)  # fmt: skip


class Document(pydantic.RootModel[dict[str, Any]]):
    """An OpenAPI document."""


def _schemas(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the schemas of all models by name."""
    answers: set[type[pydantic.BaseModel]] = {models.Refusal, *_EVENTS}
    bodies: set[type[pydantic.BaseModel]] = set()
    for route in routes:
        for operation in route.operations.values():
            answers |= {*operation.others.values(), *((operation.answer,) if operation.answer else ())}
            bodies |= {operation.body} if operation.body else set()
    wanted: list[Any] = [(model, "serialization") for model in sorted(answers, key=lambda model: model.__name__)]
    wanted += [(model, "validation") for model in sorted(bodies, key=lambda model: model.__name__)]
    _, document = models_json_schema(wanted, ref_template=_REFERENCE)
    schemas: dict[str, Any] = document["$defs"]
    return schemas


def _parameters(route: Route, operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in re.findall(r"{(\w+)", route.path):
        text, kind = _NAMES[name]
        found.append({"name": name, "in": "path", "required": True, "description": text, "schema": kind})
    schema = operation.query.model_json_schema(ref_template=_REFERENCE)
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    for name, field in properties.items():
        field = {key: value for key, value in field.items() if key not in ("title", "default")}
        text = field.pop("description", None)
        variants = [one for one in field.get("anyOf", ()) if one != {"type": "null"}]
        if len(variants) < len(field.get("anyOf", ())):  # null only says that the parameter may be left out
            field = variants[0] if len(variants) == 1 else {"anyOf": variants}
        entry: dict[str, Any] = {"name": name, "in": "query", "required": False, "schema": field}
        if text:
            entry["description"] = text
        found.append(entry)
    return found


def _refusal(status: int) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "description": _MEANS[status],
        "content": {falcon.MEDIA_JSON: {"schema": {"$ref": _REFERENCE.format(model="Refusal")}}},
    }
    if status == 401:
        entry["headers"] = {"WWW-Authenticate": {"required": True, "schema": {"type": "string"}}}
    return entry


def _operation(route: Route, method: str, operation: Operation, tokens: bool) -> dict[str, Any]:
    media: dict[str, Any] = {}
    if operation.answer is not None:
        media = {"schema": {"$ref": _REFERENCE.format(model=operation.answer.__name__)}}
    elif operation.media.startswith("text/"):
        media = {"schema": {"type": "string"}}
    responses = {"200": {"description": "Done.", "content": {operation.media: media}}}
    for status, model in operation.others.items():
        schema = {"$ref": _REFERENCE.format(model=model.__name__)}
        responses[str(status)] = {"description": _MEANS[status], "content": {falcon.MEDIA_JSON: {"schema": schema}}}
    for status in sorted({*_ALWAYS, *operation.refusals, *((401,) if tokens and not operation.open else ())}):
        responses[str(status)] = _refusal(status)
    named = [part for part in re.split(r"[^a-z]+", route.path.replace(":path", "").replace("v1", "")) if part]
    shown: dict[str, Any] = {
        "operationId": "_".join([method, *named]),
        "summary": operation.summary,
        "parameters": _parameters(route, operation),
        "responses": responses,
    }
    if tokens and operation.open:
        shown["security"] = []
    elif tokens:
        shown["x-role"] = role_needed(method, operation).value
    if operation.body is not None:
        schema = {"$ref": _REFERENCE.format(model=operation.body.__name__)}
        shown["requestBody"] = {"required": True, "content": {falcon.MEDIA_JSON: {"schema": schema}}}
    return shown


def _link_vms(paths: dict[str, Any]) -> None:
    """Say that a listed VM's id is a name for the operations on one VM."""
    links = {
        f"{method}_listed": {
            "operationId": paths["/v1/vms/{vm}"][method]["operationId"],
            "parameters": {"vm": "$response.body#/vms/0/id"},
        }
        for method in ("get", "put", "delete")
    }
    paths["/v1/vms"]["get"]["responses"]["200"]["links"] = links


def make_document(routes: Iterable[Route], tokens: bool) -> Document:
    """Return the document; ``tokens`` tells whether requests must bear one."""
    routes = list(routes)
    paths: dict[str, Any] = {
        route.path.replace(":path", ""): {
            method: _operation(route, method, operation, tokens) for method, operation in route.operations.items()
        }
        for route in routes
    }
    _link_vms(paths)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "sdn-gcc controller",
            "version": __version__,
            "description": "What every VM gets and why, and its policy. Rates are bit/s; null is not known.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": _schemas(routes)},
    }
    if tokens:
        document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "A token's role must include the x-role."}
        }
        document["security"] = [{"token": []}]
    return Document(document)


class OpenApi(Resource):
    """/v1/openapi.json; ``document`` is set by who knows all routes."""

    def __init__(self, context: RestContext, reporter: Any) -> None:
        super().__init__(context, reporter)
        self.document = Document({})

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Show the document."""
        read_query(request, models.Query)
        reply(response, self.document)


ROUTES = (Route("/v1/openapi.json", OpenApi, {"get": Operation("This document.", Document)}),)
