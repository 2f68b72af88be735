"""Talking to the API server.

Here is everything that knows HTTP, TLS, kubeconfigs, resource versions and watches: the interface
that the rest of the program calls (`api_server.py`), the client that implements it for a real
server, what a server of its version can do, the list-watches that keep the model's tables equal to
it, and the recorder of Kubernetes Events. Nothing here knows why an object is read or written: no
strategy, no policy, no state of a migration.
"""
