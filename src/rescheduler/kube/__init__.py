"""Talking to the API server.

Here is everything that knows HTTP, TLS, kubeconfigs, resource versions and watches: the port
that the rest of the program calls (`port.py`), the client that answers it from a real server,
and the list-watches that keep the model's tables equal to it. Nothing here knows why an object
is read or written: no strategy, no policy, no state of a migration. What an object means is for
the model, what to do about it for planning and migration.
"""
