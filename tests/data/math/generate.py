"""Writes exact.tsv: elementary functions of binary64 numbers, with 60 digits (mpmath 1.3), as an unevaluated sum of two.

    python generate.py > exact.tsv
"""

import math
import random
import struct

import mpmath as mp

mp.mp.dps = 60

FUNCTIONS = {
    "exp": mp.exp,
    "expm1": mp.expm1,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "tanh": mp.tanh,
    "log": lambda x: mp.log(x) if x > 0 else None,
    "log1p": lambda x: mp.log1p(x) if x > -1 else None,
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "erf": mp.erf,
}


def numbers(count):
    """Of all magnitudes, half of them where the functions bend; of either sign."""
    for i in range(count):
        low, high = (-12, 11) if i % 2 else (-70, 70)
        yield math.ldexp(1 + random.random(), random.randrange(low, high)) * random.choice([1, -1])


def bits(x):
    return struct.pack(">d", x).hex()


random.seed(20)
print("# function, argument, its value as high + low: the bits of binary64 numbers. Written by generate.py.")
for name, function in FUNCTIONS.items():
    for x in numbers(300):
        value = function(mp.mpf(x))
        if value is None or not mp.mpf("1e-300") < abs(value) < mp.mpf("1.7e308"):
            continue
        high = float(value)
        print(name, bits(x), bits(high), bits(float(value - high)), sep="\t")
