"""What all tests share: hypothesis runs the same examples every time, however slow the machine is."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")
