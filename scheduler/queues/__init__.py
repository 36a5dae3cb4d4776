"""Queues: shares of the cluster in a tree: who is in which, what each uses, who is next, and who may take from whom."""
