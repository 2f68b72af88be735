"""Real nodes for a test cluster: kubelet, containerd and kube-proxy, in namespaces of this machine.

`RealNodes` starts them for a control plane that runs already, and `TestCluster(real_nodes=3)` does
both. `missing_requirement` says why this machine cannot. All traffic stays in network namespaces
made here. What ends them again, however the test ends, is in `supervisor`. What tests do with nodes
and pods does not belong here.
"""
