"""Usage store on a Prometheus server: the only package that knows its query client."""
