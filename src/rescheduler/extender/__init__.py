"""The extender and the webhook: what kube-scheduler and the API server ask us.

The extender filters and scores the nodes for a new pod. The webhook adds a preference for the
target node to the pod that replaces an evicted one. Both answer from memory. Nothing here decides
what to move or moves it, and no pod ever depends on us: a request that we do not answer in time is
handled as if we did not exist.
"""
