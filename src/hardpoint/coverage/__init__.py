"""Operator coverage: which tier serves each ATen overload on a device."""

from __future__ import annotations

from hardpoint.coverage.tiers import TIERS, Coverage, Operator, collect

__all__ = ["TIERS", "Coverage", "Operator", "collect"]
