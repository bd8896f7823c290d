"""What a request is refused with: Kubernetes' Status object, one function for each reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kaisched_apiserver.resources import Resource

_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class ApiError(Exception):
    """An answer other than success; ``retry_after_s`` is sent as a header if it is set."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        retry_after_s: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s

    def status(self) -> dict[str, Any]:
        """Return the Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        if self.retry_after_s:
            status["details"] = {
                **status.get("details", {}),
                "retryAfterSeconds": self.retry_after_s,
            }
        status["code"] = self.code
        return status

    def body(self) -> bytes:
        """Return the Status object as JSON."""
        return msgspec.json.encode(self.status())


def success(code: int = 200, details: dict[str, Any] | None = None) -> bytes:
    """Return the Status of a request that succeeded and has no object to show."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    if details is not None:
        status["details"] = details
    else:
        status["code"] = code
    return msgspec.json.encode(status)


def _details(resource: Resource, name: str, kind: str) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": kind}


def no_such_path() -> ApiError:
    """Say that nothing is served under this path."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def not_found(resource: Resource, name: str) -> ApiError:
    """Say that there is no such object."""
    details = _details(resource, name, resource.plural)
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', details)


def already_exists(resource: Resource, name: str) -> ApiError:
    """Say that the name is taken."""
    details = _details(resource, name, resource.plural)
    return ApiError(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', details)


def conflict(
    resource: Resource, name: str, why: str = _MODIFIED, *, subresource: str = ""
) -> ApiError:
    """Say that the object is not as the request supposes."""
    what = f"{resource.qualified}/{subresource}" if subresource else resource.qualified
    kind = f"{resource.plural}/{subresource}" if subresource else resource.plural
    message = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name, kind))


def bad_request(message: str) -> ApiError:
    """Say that the request makes no sense."""
    return ApiError(400, "BadRequest", message)


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    """Say that the request is understood and not allowed."""
    what = f'{resource.qualified} "{name}"' if name else resource.qualified
    details = _details(resource, name, resource.plural)
    return ApiError(403, "Forbidden", f"{what} is forbidden: {why}", details)


def unauthorized() -> ApiError:
    """Say that the token is unknown."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def unsupported_media_type(given: str, taken: Iterable[str]) -> ApiError:
    """Say that the body is in a format that is not taken here."""
    message = (
        f"the body of the request was in an unknown format ({given}) - accepted media types"
        f" include: {', '.join(taken)}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def method_not_allowed() -> ApiError:
    """Say that the resource does not know this verb."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def expired(message: str) -> ApiError:
    """Say that the history does not reach back so far."""
    return ApiError(410, "Expired", message)


def too_large_version(version: int, current: int) -> ApiError:
    """Say that the version lies in the future."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": causes}, retry_after_s=1)


class FieldFault(msgspec.Struct, frozen=True):
    """What is wrong with one field of an object."""

    field: str
    reason: str
    message: str

    @property
    def text(self) -> str:
        """The field and its fault."""
        return f"{self.field}: {self.message}"


def required(field: str) -> FieldFault:
    """Return the fault of a field that is missing."""
    return FieldFault(field, "FieldValueRequired", "Required value")


def wrong(field: str, value: object, why: str) -> FieldFault:
    """Return the fault of a field with a value it cannot have."""
    shown = msgspec.json.encode(value).decode()
    return FieldFault(field, "FieldValueInvalid", f"Invalid value: {shown}: {why}")


def not_allowed(field: str, why: str) -> FieldFault:
    """Return the fault of a field that may not be set or changed."""
    return FieldFault(field, "FieldValueForbidden", f"Forbidden: {why}")


def invalid(resource: Resource, name: str, faults: list[FieldFault]) -> ApiError:
    """Say that the object is not valid; there is at least one fault."""
    texts = [fault.text for fault in faults]
    why = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    causes = [{"reason": it.reason, "message": it.message, "field": it.field} for it in faults]
    details = {**_details(resource, name, resource.kind), "causes": causes}
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {why}', details)
