"""The three installs that are shipped, by the options that differ from their defaults."""

from typing import Any

INSTALLS: dict[str, dict[str, Any]] = {
    "full": {},
    "controller-only": {"extender.enabled": False},
    "read-only": {"dryRun": True},
}
