"""A real Kubernetes control plane for tests, and objects to put into it.

`TestCluster` starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok, which
listen on 127.0.0.1 only. `builders` builds Kubernetes objects in one line each. `loader` loads a
very large cluster. The subjects of tests (planning, moving pods) do not belong here, and nothing
here is part of the installed package.
"""

from testcluster.cluster import ClusterError, TestCluster

__all__ = ["ClusterError", "TestCluster"]
