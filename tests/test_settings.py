"""The policy file: what it may look like, what it means, and what is said about mistakes."""

import json
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.errors import SettingsError
from rescheduler.files.policy_file import read_policy
from rescheduler.model.objects import LabelSelector
from rescheduler.model.selectors import selects
from rescheduler.settings import (
    Arguments,
    Limit,
    Options,
    Policy,
    ScoreWeights,
    limit_of,
    node_label_of,
    seconds_of,
    seconds_or_zero_of,
)

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
    assert read.enabled_strategies == (
        "LoadBalancing",
        "ResourceOptimization",
        "NodeMaintenance",
    )
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
    assert defaults.planning_timeout_seconds == 5.0
    assert defaults.min_pod_age_seconds == 0.0
    allowed = (defaults.allow_bare_pods, defaults.allow_job_pods, defaults.allow_local_storage)
    assert not any(allowed)
    assert defaults.max_pending_pods == 100
    assert defaults.max_unready_nodes_percent == 20.0
    label = defaults.node_maintenance.maintenance_label
    assert label == "scheduler.alpha.kubernetes.io/maintenance=true"


EVERY_OPTION = """
planningTimeout: 2s
minPodAge: 1m
allowBarePods: true
allowJobPods: true
allowLocalStorage: true
maxMovesPerNode: 5
maxMovesPerNamespace: 0
maxMovesPerWorkload: 12.5%
maxPendingPods: 7
maxUnreadyNodesPercent: 33
consecutiveRounds: 2
strategyWeights: {CostOptimization: 2, LoadBalancing: 0.5}
enabledStrategies: [TopologySpread, ConstraintRepair, CostOptimization, Defragmentation]
loadBalancing: {weights: {cpu: 2, memory: 0}, nodePoolLabel: pool}
nodeMaintenance: {maintenanceLabel: leaving=soon, cordon: false}
topologySpread: {undeclared: false}
constraintRepair: {preferred: true}
costOptimization: {minimumSavings: 1.5, moveCost: 0.01, prices: {m5.large: 0.1, t3: 0}}
defragmentation: {shape: {cpu: 1500m, memory: 1Ki, nvidia.com/gpu: 1}}
"""


def test_every_option_is_read() -> None:
    read = policy(EVERY_OPTION)
    assert (read.planning_timeout_seconds, read.min_pod_age_seconds) == (2.0, 60.0)
    assert read.allow_bare_pods
    assert read.allow_job_pods
    assert read.allow_local_storage
    assert (read.max_moves_per_node, read.max_moves_per_namespace) == (Limit("5"), Limit("0"))
    assert read.max_moves_per_workload == Limit("12.5%")
    assert (read.max_pending_pods, read.max_unready_nodes_percent) == (7, 33.0)
    assert read.consecutive_rounds == 2
    assert read.strategy_weights == {"CostOptimization": 2.0, "LoadBalancing": 0.5}
    assert (read.load_balancing.weights.cpu, read.load_balancing.weights.memory) == (2.0, 0.0)
    assert read.load_balancing.node_pool_label == "pool"
    assert read.node_maintenance.maintenance_label.is_in({"leaving": "soon"})
    assert not read.node_maintenance.cordon
    assert not read.topology_spread.undeclared
    assert read.constraint_repair.preferred
    assert read.cost_optimization.prices == {"m5.large": 0.1, "t3": 0.0}
    assert (read.cost_optimization.minimum_savings, read.cost_optimization.move_cost) == (1.5, 0.01)
    assert read.defragmentation.amounts() == {"cpu": 1500, "memory": 1024, "nvidia.com/gpu": 1}
    assert read == policy(EVERY_OPTION)


@pytest.mark.parametrize(
    ("written", "total", "allowed"),
    [
        (3, 100, 3),
        (0, 100, 0),
        ("10%", 100, 10),
        ("10%", 4, 1),
        ("10%", 19, 1),
        ("2.3%", 1000, 23),
        ("100%", 7, 7),
        ("0%", 7, 0),
        ("10%", 0, 0),
    ],
)
def test_a_share_of_some_is_at_least_one(written: int | str, total: int, allowed: int) -> None:
    assert limit_of(written).of(total) == allowed


def test_a_label_alone_means_the_value_true() -> None:
    assert node_label_of("leaving").is_in({"leaving": "true"})
    assert not node_label_of("leaving").is_in({"leaving": "false"})
    assert node_label_of("acme.example/leaving=").is_in({"acme.example/leaving": ""})


def test_only_a_duration_that_may_be_zero_is() -> None:
    assert seconds_or_zero_of("0s") == 0.0
    assert policy("minPodAge: 0s") == Policy()


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


@pytest.mark.parametrize("written", ["1e-06", "1E-6", "+1e-6", "1.0e-6", "0.000001"])
def test_numbers_may_have_an_exponent(written: str) -> None:
    read = policy(f"costOptimization: {{moveCost: {written}}}")
    assert read.cost_optimization.move_cost == 1e-6


def test_json_numbers_are_read_however_they_are_written() -> None:
    args = {"costOptimization": {"moveCost": 1e-06}, "defragmentation": {"shape": {"memory": 1e16}}}
    read = policy(json.dumps(args))
    assert read.cost_optimization.move_cost == 1e-06
    assert read.defragmentation.amounts() == {"memory": 10**16}


def test_text_that_looks_like_a_number_stays_text_in_quotes() -> None:
    assert policy('excludedNamespaces: ["1e5"]').excluded_namespaces == ("1e5",)


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
DURATION_OR_ZERO = "expected a duration such as '30s', '1m30s' or '0s'"
LIMIT = "expected a whole number, 0 or more, or a percentage such as '10%'"
LABEL = "expected a label such as 'maintenance' or 'maintenance=true'"
QUANTITY = "expected a number with an optional suffix, such as '500m', '1.5' or '2Gi'"
STRATEGIES = (
    "expected one of LoadBalancing, ResourceOptimization, NodeMaintenance, TopologySpread, "
    "ConstraintRepair, CostOptimization, Defragmentation"
)


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
        ("planningTimeout: 0s", f"planningTimeout: '0s': {DURATION}"),
        ("minPodAge: soon", f"minPodAge: 'soon': {DURATION_OR_ZERO}"),
        ("minPodAge: 0", f"minPodAge: 0: {DURATION_OR_ZERO}"),
        ("allowBarePods: 1", "allowBarePods: 1: expected true or false"),
        ("maxMovesPerNode: -1", f"maxMovesPerNode: -1: {LIMIT}"),
        ("maxMovesPerNamespace: 2.5", f"maxMovesPerNamespace: 2.5: {LIMIT}"),
        ("maxMovesPerWorkload: 101%", f"maxMovesPerWorkload: '101%': {LIMIT}"),
        ("maxMovesPerWorkload: '5'", f"maxMovesPerWorkload: '5': {LIMIT}"),
        ("maxMovesPerWorkload: yes", f"maxMovesPerWorkload: True: {LIMIT}"),
        ("maxPendingPods: few", "maxPendingPods: 'few': expected a whole number, 0 or more"),
        (
            "maxUnreadyNodesPercent: 101",
            "maxUnreadyNodesPercent: 101: expected a percentage from 0 to 100",
        ),
        ("consecutiveRounds: 0", "consecutiveRounds: 0: expected a whole number, 1 or more"),
        (
            "strategyWeights: {LoadBalancing: 1, NodeMaintenance: 0}",
            "strategyWeights.NodeMaintenance: 0: expected a number above 0, up to 1e6",
        ),
        ("strategyWeights: {Magic: 1}", f"strategyWeights.Magic: unknown, {STRATEGIES}"),
        (
            "loadBalancing: {weights: {cpu: -1}}",
            "loadBalancing.weights.cpu: -1: expected a number from 0 to 1e15",
        ),
        (
            "loadBalancing: {weights: {cpu: 0, memory: 0}}",
            "loadBalancing.weights: {'cpu': 0, 'memory': 0}: "
            "expected a weight above 0 for cpu or memory",
        ),
        (
            "loadBalancing: {wieghts: {cpu: 0}}",
            "loadBalancing.wieghts: unknown, did you mean weights?",
        ),
        (
            "nodeMaintenance: {maintenanceLabel: 'a in (b)'}",
            f"nodeMaintenance.maintenanceLabel: 'a in (b)': {LABEL}",
        ),
        (
            "nodeMaintenance: {maintenanceLabel: a=b=c}",
            f"nodeMaintenance.maintenanceLabel: 'a=b=c': {LABEL}",
        ),
        (
            "nodeMaintenance: {maintenanceLabel: -a}",
            f"nodeMaintenance.maintenanceLabel: '-a': {LABEL}",
        ),
        (
            "costOptimization: {prices: {t3: 1, m5.large: -0.1}}",
            "costOptimization.prices[m5.large]: -0.1: expected a number from 0 to 1e15",
        ),
        (
            "costOptimization: {moveCost: .inf}",
            "costOptimization.moveCost: inf: expected a number from 0 to 1e15",
        ),
        (
            "enabledStrategies: [Defragmentation]",
            "defragmentation.shape: missing, expected the requests of a pod to make room for, "
            "such as {cpu: '16'}",
        ),
        (
            "defragmentation: {shape: {cpu: 1, memory: 5oom}}",
            f"defragmentation.shape.memory: '5oom': {QUANTITY}",
        ),
        ("defragmentation: {shape: {cpu: [1]}}", f"defragmentation.shape.cpu: [1]: {QUANTITY}"),
        (
            "defragmentation: {shape: {cpu: 0}}",
            "defragmentation.shape.cpu: 0: expected more than 0",
        ),
        (
            "defragmentation: {shape: {cpus: 1}}",
            "defragmentation.shape.cpus: unknown, expected such as cpu, memory, nvidia.com/gpu",
        ),
        ("pluginOptions: {}", None),
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


OPTIONS = [field.encode_name for field in msgspec.structs.fields(Arguments)]
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


class Packing:
    class Options(Options, frozen=True):
        headroom: int
        tidy: bool = False


class Plain:
    pass


PLUGINS: dict[str, type] = {"Packing": Packing, "Plain": Plain}


def test_strategies_of_other_people_can_be_enabled_and_have_options() -> None:
    text = "enabledStrategies: [Packing, Plain]\npacking: {headroom: 3}"
    read = read_policy("policy.yaml", text.encode(), PLUGINS)
    assert read.enabled_strategies == ("Packing", "Plain")
    assert read.plugin_options == {"Packing": Packing.Options(headroom=3)}
    assert read == read_policy("policy.yaml", text.encode(), PLUGINS)
    assert read_policy("policy.yaml", b"", PLUGINS) == Policy()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("enabledStrategies: [Magic]", f"{STRATEGIES}, Packing, Plain"),
        ("enabledStrategies: [Packing]", "packing.headroom: missing"),
        ("packing: {headroom: x}", "packing.headroom: 'x': expected a whole number"),
        ("packing: {headrom: 1}", "packing.headrom: unknown, did you mean headroom?"),
        ("pakcing: {}", "pakcing: unknown, did you mean packing?"),
    ],
)
def test_mistakes_in_options_of_other_people_are_named_too(text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_policy("policy.yaml", text.encode(), PLUGINS)
    assert expected in str(raised.value)


def test_without_its_plugin_a_strategy_is_unknown() -> None:
    assert (
        message("enabledStrategies: [Packing]") == f"enabledStrategies[0]: 'Packing': {STRATEGIES}"
    )
    assert message("packing: {}").startswith("packing: unknown")


def test_options_of_the_extender_are_read() -> None:
    read = policy("{strictFilter: true, scoreWeights: {cpu: 2, balance: 0}}")
    assert read.strict_filter
    assert read.score_weights == ScoreWeights(cpu=2.0, memory=1.0, balance=0.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("strictFilter: sometimes", "strictFilter: 'sometimes': expected true or false"),
        ("scoreWeights: {cpu: -1}", "scoreWeights.cpu: -1: expected a number from 0 to 1e15"),
        (
            "scoreWeights: {cpu: 0, memory: 0, balance: 0}",
            "expected a weight above 0 for cpu, memory or balance",
        ),
        ("scoreWeights: {disk: 1}", "scoreWeights.disk: unknown, expected cpu, memory, balance"),
    ],
)
def test_a_mistake_in_options_of_the_extender_is_explained(text: str, said: str) -> None:
    assert said in message(text)
