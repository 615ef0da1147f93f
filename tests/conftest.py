"""Property tests draw from a fixed seed, and a busy machine is no failure.

Here and not beside some of them: a profile counts for whatever is imported after it, so it must come before all tests.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")
