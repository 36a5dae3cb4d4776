"""Live state of the cluster and its frozen, columnar view."""
