"""Which API server to connect to, how to trust it, and as whom.

`loader.load_credentials` is the way in: it looks where kubectl looks and returns `Credentials`.
Here belong the formats that say so (kubeconfig files, exec plugins, a pod's service account) and
what they lead to (tokens, certificates, proxies). Requests to the API server do not belong here:
this package talks to no server, it only says how to.
"""
