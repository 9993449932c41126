"""What holds for every test: how long an example takes says nothing, on a busy machine."""

import gc

from hypothesis import HealthCheck, settings

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

gc.disable()  # what collection makes stays until the end


def pytest_collection_finish():
    """The garbage collector passes over thousands of tests and modules: a fifth of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()
