"""Tests of the package: against NumPy, on the library of the wheel or the one that CUDNN_SHIM_LIBRARY names."""

import numpy
import pytest


@pytest.fixture
def random():
    return numpy.random.default_rng(7)
