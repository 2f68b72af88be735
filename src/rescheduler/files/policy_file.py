"""From a policy file to a policy.

The file is a `KubeSchedulerConfiguration` in which some profile has a `pluginConfig` named
`Rescheduler`; what else it configures is the scheduler's business and ignored here. The `args` of
that entry alone, as YAML or JSON, will do as well. An empty file means the defaults.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rescheduler.errors import SettingsError
from rescheduler.files.conversion import BadValue, converted
from rescheduler.files.documents import BadDocument, yaml_documents
from rescheduler.files.policy_arguments import policy_from
from rescheduler.files.problems import InvalidValue
from rescheduler.settings.policy import Policy

API_VERSION = "kubescheduler.config.k8s.io/v1"
CONFIGURATION_KIND = "KubeSchedulerConfiguration"
PLUGIN = "Rescheduler"
ARGUMENTS_KIND = "ReschedulerArgs"


class _PluginConfig(msgspec.Struct):
    name: str
    args: dict[str, Any] = {}


class _Profile(msgspec.Struct, rename="camel"):
    plugin_config: tuple[_PluginConfig, ...] = ()


class _Configuration(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    profiles: tuple[_Profile, ...] = ()


def read_policy(name: str, data: bytes, plugins: Mapping[str, type] = {}) -> Policy:
    """The policy in a file, given its name, its content, and other people's strategies by name."""
    try:
        args, path = _arguments_in(yaml_documents(data))
        return policy_from(args, path, plugins)
    except (BadDocument, BadValue) as error:
        raise SettingsError(f"{name}: {error}") from error


def _arguments_in(documents: list[Any]) -> tuple[dict[str, Any], str]:
    """Our arguments, and where in the file they are."""
    if not documents:
        return {}, ""
    if len(documents) > 1:
        raise BadValue(InvalidValue("", f"{len(documents)} documents: expected one"))
    content = documents[0]
    if not isinstance(content, dict):
        raise BadValue(
            InvalidValue("", f"expected a {CONFIGURATION_KIND} or the args of {PLUGIN}", content)
        )
    is_configuration = content.keys() & {"apiVersion", "kind", "profiles"}
    if is_configuration and content.get("kind") != ARGUMENTS_KIND:
        return _plugin_args(content)
    return content, ""


def _plugin_args(content: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The args of the one entry that is ours, and where they are."""
    configuration = converted(content, _Configuration)
    for field, expected in (("api_version", API_VERSION), ("kind", CONFIGURATION_KIND)):
        value = getattr(configuration, field)
        if value != expected:
            path = "apiVersion" if field == "api_version" else field
            raise BadValue(InvalidValue(path, f"expected {expected}", value))
    ours = [entry for entry in _plugin_configs(configuration) if entry[1].name == PLUGIN]
    if not ours:
        names = [entry.name for _, entry in _plugin_configs(configuration)]
        found = f"found only {', '.join(names)}" if names else "found none"
        raise BadValue(InvalidValue("profiles", f"expected a pluginConfig named {PLUGIN}, {found}"))
    if len(ours) > 1:
        places = " and ".join(path for path, _ in ours)
        raise BadValue(
            InvalidValue("profiles", f"expected one pluginConfig named {PLUGIN}, not {places}")
        )
    path, entry = ours[0]
    return entry.args, f"{path}.args"


def _plugin_configs(configuration: _Configuration) -> Iterator[tuple[str, _PluginConfig]]:
    for number, profile in enumerate(configuration.profiles):
        for index, entry in enumerate(profile.plugin_config):
            yield f"profiles[{number}].pluginConfig[{index}]", entry
