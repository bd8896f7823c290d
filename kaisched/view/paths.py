"""Paths of the live view's API; importing them costs a client nothing."""

from __future__ import annotations

from typing import Final

ROOT: Final = "/api/v1"
CHANGES: Final = f"{ROOT}/changes"
WHATIF: Final = f"{ROOT}/whatif"
OPENAPI: Final = f"{ROOT}/openapi.json"
