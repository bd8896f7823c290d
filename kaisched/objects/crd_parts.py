"""Parts of which the rules of CRD schemas are made: descriptions, rules in CEL, a pattern."""

from __future__ import annotations

from typing import Final

from kaisched.objects.crd_schema import Schema

LABEL_KEY: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


def cel(rule: str, message: str) -> dict[str, str]:
    """Return one rule of ``x-kubernetes-validations``."""
    return {"rule": rule, "message": message}


def rules(*each: dict[str, str]) -> Schema:
    """Return the part of a schema that holds rules."""
    return {"x-kubernetes-validations": list(each)}


def says(text: str, **more: object) -> Schema:
    """Return the part of a schema that describes a field, with more keys of the schema."""
    return {"description": text, **more}
