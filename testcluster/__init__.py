"""A real Kubernetes control plane to test against, and what is needed to fill it.

`TestCluster` starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok
on this machine alone; `builders` makes Kubernetes objects a line each; `loader` puts a very
large cluster in. What the tests are about (planning, moving pods) does not belong here, and
nothing here is part of the installed package.
"""

from testcluster.cluster import ClusterError, TestCluster

__all__ = ["ClusterError", "TestCluster"]
