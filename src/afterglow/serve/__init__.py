"""The inference server: models of a folder over HTTP and gRPC: see docs/serve.md."""
