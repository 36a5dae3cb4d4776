"""The edge to Kubernetes: what happens there becomes inputs of the engine, and its effects become requests.

For `ai-scheduler run`.  Nothing is decided here.
"""
