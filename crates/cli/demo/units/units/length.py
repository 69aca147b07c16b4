FACTORS = {
    "m": 1.0,
    "km": 1000.0,
    "ft": 0.3048,
}


def convert(value, unit, to):
    """Converts by way of metre."""
    for name in (unit, to):
        if name not in FACTORS:
            raise ValueError(f"unknown unit {name!r}; there are {', '.join(FACTORS)}")
    return value * FACTORS[unit] / FACTORS[to]
