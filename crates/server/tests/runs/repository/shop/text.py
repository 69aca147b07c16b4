"""Names as they stand in addresses."""


def slug(name):
    return name.lower().replace(" ", "_")
