"""The judge: asks every rule, and keeps their counts true while moves are planned."""

from typing import NamedTuple

import numpy as np

from rescheduler.model.snapshot import Bools, Snapshot
from rescheduler.planning.feasibility.inter_pod_affinity import InterPodAffinity
from rescheduler.planning.feasibility.node_affinity import NodeAffinity
from rescheduler.planning.feasibility.node_declared_features import NodeDeclaredFeatures
from rescheduler.planning.feasibility.node_ports import NodePorts
from rescheduler.planning.feasibility.node_resources_fit import NodeResourcesFit
from rescheduler.planning.feasibility.node_unschedulable import NodeUnschedulable
from rescheduler.planning.feasibility.node_volume_limits import NodeVolumeLimits
from rescheduler.planning.feasibility.pod_topology_spread import PodTopologySpread
from rescheduler.planning.feasibility.rule import ClusterView, CountingRule, Rule
from rescheduler.planning.feasibility.taint_toleration import TaintToleration
from rescheduler.planning.feasibility.volume_binding import VolumeBinding
from rescheduler.planning.feasibility.volume_restrictions import VolumeRestrictions
from rescheduler.planning.feasibility.volume_zone import VolumeZone
