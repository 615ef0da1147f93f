"""Bodies that are read as bytes, and so would be missing from the OpenAPI document: messages, forms, YAML, CSV."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from crossward.protocol.certificate import SignedCertificate
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.tasks import DeclineMessage, HeartbeatMessage, ResultMessage, TaskMessage

MESSAGES: tuple[type[BaseModel], ...] = (
    DeclineMessage,
    HeartbeatMessage,
    ResultMessage,
    SignedCertificate,
    SignedReceipt,
    SignedRelease,
    TaskMessage,
)


def sends(model: type[BaseModel]) -> dict[str, Any]:
    """`openapi_extra` of a route whose body is a message."""
    return _body("application/json", {"$ref": f"#/components/schemas/{model.__name__}"})


def sends_form(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """`openapi_extra` of a route whose body is a small model of its own, without models inside."""
    return _body("application/json", model.model_json_schema(), required)


def sends_text(media_type: str) -> dict[str, Any]:
    """`openapi_extra` of a route whose body is a file."""
    return _body(media_type, {"type": "string"})


def answers(model: type[BaseModel], description: str) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route that answers with a message."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {200: {"description": description, "content": {"application/json": {"schema": schema}}}}


def _body(media_type: str, schema: dict[str, Any], required: bool = True) -> dict[str, Any]:
    return {"requestBody": {"required": required, "content": {media_type: {"schema": schema}}}}


def document(app: FastAPI) -> None:
    """Add the messages to the app's OpenAPI document."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _, schemas = models_json_schema(
                [(model, "validation") for model in MESSAGES], ref_template="#/components/schemas/{model}"
            )
            components = generate().setdefault("components", {}).setdefault("schemas", {})
            components |= {name: schema for name, schema in schemas["$defs"].items() if name not in components}
        return generate()

    app.openapi = openapi  # type: ignore[method-assign]
