"""The cluster in memory: an API server with its controllers and its scheduler, without HTTP.

`api_server` answers the same interface as the client of a real one. What happens to the cluster
from outside is in `scenario`; what was measured is in `results`.
"""
