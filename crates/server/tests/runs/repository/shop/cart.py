"""A cart: names and how many of each."""


class Cart:
    def __init__(self):
        self.lines = {}

    def add(self, name, count=1):
        self.lines[name] = self.lines.get(name, 0) + count

    def remove(self, name):
        self.lines.pop(name)

    def size(self):
        return len(self.lines)
