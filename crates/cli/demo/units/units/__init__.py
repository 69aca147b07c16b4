"""Converts quantities between units: a module per quantity, each with convert(value, unit, to)."""
