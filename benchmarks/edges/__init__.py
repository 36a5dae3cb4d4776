"""What the edges of the process cost: reflectors, binder, garbage collector, start-up; against a lean scripted API server."""
