"""The policy file: what it may look like, what it means, and what is said about mistakes."""

import json
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.errors import SettingsError
from rescheduler.model.objects import LabelSelector
from rescheduler.model.selectors import selects
from rescheduler.settings import Policy, StrategyName, read_policy, seconds_of

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
profiles:
- schedulerName: default-scheduler
- schedulerName: rescheduler-scheduler
  plugins:
    filter:
      enabled:
      - name: Rescheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocated}}
  - name: Rescheduler
    args:
      reschedulingInterval: "30s"
      enabledStrategies:
      - "LoadBalancing"
      - "ResourceOptimization"
      - "NodeMaintenance"
      cpuThreshold: 75.0
      memoryThreshold: 70
      imbalanceThreshold: 15.5
      maxReschedulePods: 5
      excludedNamespaces:
      - "kube-system"
      - "monitoring"
      excludedPodSelector: "app=web,tier in (a,b)"
"""


def policy(text: str) -> Policy:
    return read_policy("policy.yaml", text.encode())


def message(text: str) -> str:
    with pytest.raises(SettingsError) as raised:
        policy(text)
    said = str(raised.value)
    assert said.startswith("policy.yaml: ")
    return said.removeprefix("policy.yaml: ")


def test_a_scheduler_configuration_is_read() -> None:
    read = policy(CONFIGURATION)
    assert read.rescheduling_interval_seconds == 30.0
    assert read.enabled_strategies == tuple(StrategyName)
    assert read.cpu_threshold == 75.0
    assert read.memory_threshold == 70.0
    assert read.imbalance_threshold == 15.5
    assert read.max_reschedule_pods == 5
    assert read.excluded_namespaces == ("kube-system", "monitoring")
    assert selects(read.excluded_pod_selector, {"app": "web", "tier": "b"})
    assert not selects(read.excluded_pod_selector, {"app": "web"})


def test_the_defaults_are_those_promised() -> None:
    defaults = Policy()
    assert defaults.rescheduling_interval_seconds == 30.0
    assert defaults.enabled_strategies == ("LoadBalancing", "ResourceOptimization")
    assert (defaults.cpu_threshold, defaults.memory_threshold) == (80.0, 80.0)
    assert defaults.imbalance_threshold == 20.0
    assert defaults.max_reschedule_pods == 10
    assert defaults.excluded_namespaces == ("kube-system", "kube-public")
    assert not selects(defaults.excluded_pod_selector, {"app": "web"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet",
        "{}",
        'excludedPodSelector: ""',
        "excludedPodSelector: {}",
        "excludedPodSelector:",
        "cpuThreshold:",
        CONFIGURATION[: CONFIGURATION.index("    args:\n")],
    ],
)
def test_what_is_not_said_is_the_default(text: str) -> None:
    assert policy(text) == Policy()


def test_the_args_alone_will_do() -> None:
    content = yaml.safe_load(CONFIGURATION)
    args = content["profiles"][1]["pluginConfig"][1]["args"]
    assert policy(yaml.safe_dump(args)) == policy(CONFIGURATION)
    assert policy(json.dumps(args)) == policy(CONFIGURATION)
    assert policy(json.dumps(args, indent="\t")) == policy(CONFIGURATION)
    named = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "ReschedulerArgs", **args}
    assert policy(yaml.safe_dump(named)) == policy(CONFIGURATION)


def test_a_selector_may_be_a_mapping() -> None:
    read = policy(
        "excludedPodSelector: {matchLabels: {app: web},"
        " matchExpressions: [{key: tier, operator: NotIn, values: [a]}]}"
    )
    assert isinstance(read.excluded_pod_selector, LabelSelector)
    assert selects(read.excluded_pod_selector, {"app": "web", "tier": "b"})
    assert not selects(read.excluded_pod_selector, {"app": "web", "tier": "a"})


def test_yaml_anchors_may_be_used() -> None:
    assert policy("cpuThreshold: &t 70\nmemoryThreshold: *t").memory_threshold == 70


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1h", 3600),
        ("1.5h", 5400),
        ("1h0m0.5s", 3600.5),
        ("250us", 0.00025),
        ("3µs", 0.000003),
        (".5s", 0.5),
    ],
)
def test_durations_are_read_as_go_writes_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("bad", ["", "30", "s", "1d", "-1s", "1s ", "0s", "1m 30s", 30, None, "٣s"])
def test_what_is_no_duration_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as '30s'"):
        seconds_of(bad)


DURATION = "expected a duration such as '30s', '1m30s' or '500ms', longer than zero"
STRATEGIES = "expected one of LoadBalancing, ResourceOptimization, NodeMaintenance"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cpuTreshold: 80", "cpuTreshold: unknown, did you mean cpuThreshold?"),
        ("cpu_threshold: 80", "cpu_threshold: unknown, did you mean cpuThreshold?"),
        (
            "excludedPodSelector: {':': 1}",
            "excludedPodSelector[:]: unknown, expected matchLabels, matchExpressions",
        ),
        ("cpuThreshold: -1", "cpuThreshold: -1: expected a percentage from 0 to 100"),
        ("cpuThreshold: 100.5", "cpuThreshold: 100.5: expected a percentage from 0 to 100"),
        ("cpuThreshold: .nan", "cpuThreshold: nan: expected a percentage from 0 to 100"),
        ("memoryThreshold: 80%", "memoryThreshold: '80%': expected a percentage from 0 to 100"),
        (
            "imbalanceThreshold: yes",
            "imbalanceThreshold: True: expected a percentage from 0 to 100",
        ),
        ("maxReschedulePods: -3", "maxReschedulePods: -3: expected a whole number, 0 or more"),
        ("maxReschedulePods: 2.5", "maxReschedulePods: 2.5: expected a whole number, 0 or more"),
        ("enabledStrategies: [Magic]", f"enabledStrategies[0]: 'Magic': {STRATEGIES}"),
        ("enabledStrategies: [7]", f"enabledStrategies[0]: 7: {STRATEGIES}"),
        (
            "enabledStrategies: LoadBalancing",
            "enabledStrategies: 'LoadBalancing': expected a list",
        ),
        (
            "enabledStrategies: [LoadBalancing, LoadBalancing]",
            "enabledStrategies[1]: 'LoadBalancing': expected each strategy once",
        ),
        ("excludedNamespaces: [3]", "excludedNamespaces[0]: 3: expected text"),
        ("reschedulingInterval: fast", f"reschedulingInterval: 'fast': {DURATION}"),
        ("reschedulingInterval: 30", f"reschedulingInterval: 30: {DURATION}"),
        ("reschedulingInterval: -30s", f"reschedulingInterval: '-30s': {DURATION}"),
        (
            "excludedPodSelector: app in web",
            "excludedPodSelector: 'app in web': "
            "expected a label selector such as 'app=web,tier in (a,b),!legacy,x!=y'",
        ),
        (
            "excludedPodSelector: {app: web}",
            "excludedPodSelector.app: unknown, expected matchLabels, matchExpressions",
        ),
        (
            "excludedPodSelector: {matchExpressions: [{key: a, operator: Like}]}",
            "excludedPodSelector.matchExpressions[0].operator: 'Like': "
            "expected one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            "cpuThreshold: 1\ncpuThreshold: 2",
            "YAML is malformed: line 2: the key 'cpuThreshold' appears twice",
        ),
        ("{}\n---\n{}", "2 documents: expected one"),
        ("- a", "['a']: expected a KubeSchedulerConfiguration or the args of Rescheduler"),
        ("3: 4", None),
        ("a: [", None),
        ("kind: KubeSchedulerConfiguration", "apiVersion: missing"),
        (
            CONFIGURATION.replace("config.k8s.io/v1", "config.k8s.io/v1beta3"),
            "apiVersion: 'kubescheduler.config.k8s.io/v1beta3': "
            "expected kubescheduler.config.k8s.io/v1",
        ),
        (
            CONFIGURATION.replace("kind: Kube", "kind: Cube"),
            "kind: 'CubeSchedulerConfiguration': expected KubeSchedulerConfiguration",
        ),
        (
            CONFIGURATION.replace("- name: Rescheduler\n    args", "- name: Resheduler\n    args"),
            "profiles: expected a pluginConfig named Rescheduler, "
            "found only NodeResourcesFit, Resheduler",
        ),
        (
            CONFIGURATION[: CONFIGURATION.index("  pluginConfig")],
            "profiles: expected a pluginConfig named Rescheduler, found none",
        ),
        (
            CONFIGURATION.replace("NodeResourcesFit", "Rescheduler"),
            "profiles: expected one pluginConfig named Rescheduler, "
            "not profiles[1].pluginConfig[0] and profiles[1].pluginConfig[1]",
        ),
        (
            CONFIGURATION.replace("cpuThreshold: 75.0", "cpuThreshold: 750"),
            "profiles[1].pluginConfig[1].args.cpuThreshold: 750: "
            "expected a percentage from 0 to 100",
        ),
        (
            CONFIGURATION.replace('"app=web', '"app=web;'),
            "profiles[1].pluginConfig[1].args.excludedPodSelector: 'app=web;': "
            "'web;' cannot be a label's value; "
            "expected a label selector such as 'app=web,tier in (a,b),!legacy,x!=y'",
        ),
        (
            CONFIGURATION.replace("{scoringStrategy: {type: LeastAllocated}}", "none"),
            "profiles[1].pluginConfig[0].args: 'none': expected a mapping",
        ),
    ],
)
def test_a_mistake_is_named_with_what_was_expected(text: str, expected: str | None) -> None:
    said = message(text)
    assert expected is None or said == expected


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"policy\.yaml: byte 0 is 0xff: expected text"):
        read_policy("policy.yaml", b"\xff\xfe")


OPTIONS = [field.encode_name for field in msgspec.structs.fields(Policy)]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([*OPTIONS, "kind", "profiles"]), VALUES, max_size=3))
def test_whatever_is_written_is_a_policy_or_a_settings_error(content: dict[str, Any]) -> None:
    try:
        policy(json.dumps(content))
    except SettingsError:
        return
