"""DRA: claims, slices and their allocation; empty until the devices part is built."""
