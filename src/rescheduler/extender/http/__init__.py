"""What protects the HTTP server: limits on connections, requests and bodies, and its own thread."""
