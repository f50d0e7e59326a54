"""Services over HTTP: over the network (`http`), or an application in this process (`asgi`)."""
