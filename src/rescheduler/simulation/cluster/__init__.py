"""The simulated cluster: an API server with its controllers, kubelets and scheduler, without HTTP.

`api_server` implements the interface of the client of a real one. `cluster` puts the parts
together. What happens to the cluster from outside is in `scenario`, what is measured in `results`;
nothing here knows of either.
"""
