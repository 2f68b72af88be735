"""What real kubelets write is read, and a null in it is a field left out."""

from testcluster import TestCluster
from testcluster.realnodes.web_apps import WebApp, running
from tests.kube.null_field_checks import check_each_field, check_random_fields, objects_of
from tests.real_nodes.support import rescheduler


def test_a_null_in_what_a_real_kubelet_writes_is_a_field_left_out(
    real_cluster: TestCluster,
) -> None:
    with running(real_cluster, "nulls", [WebApp("web", replicas=2)]):
        objects = objects_of(real_cluster.client, lambda item: True)
        written = {item["kind"] for item in objects}
        assert {"Node", "Pod", "CSINode", "ReplicaSet", "Namespace"} <= written
        # The very reason for the rule: kubelets without storage drivers write this.
        drivers = [item["spec"]["drivers"] for item in objects if item["kind"] == "CSINode"]
        assert None in drivers
        for item in objects:
            check_each_field(item)
            check_random_fields(item)
        assert "Not decoded" not in rescheduler(real_cluster, "plan")
