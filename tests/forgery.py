"""Model files that are taken apart, changed, and put together again with a valid checksum."""

import numpy as np

from mondrian_kernel.persistence import load, save
from mondrian_kernel.persistence.container import StoredArray, pack, restore, store, unpack

PARTS = {
    "Trees": "trees", "Levels": "levels", "TrainingRows": "rows", "Columns": "columns",
    "Trend": "trend", "Spread": "spread",
}  # fmt: skip


class Forgery:
    """A saved model taken apart, to be put together again with a valid checksum."""

    def __init__(self, model, folder):
        self.path = folder / "forged"
        save(model, self.path)
        self.header, body = unpack(self.path.read_bytes())
        ends = np.cumsum([a[-1] for a in self.header["arrays"]])
        self.chunks = [bytes(c) for c in np.split(np.frombuffer(body, np.uint8), ends[:-1])]

    def state(self, name):
        """Return the state of the last object of a class, or of a part of the last record."""
        objects = self.header["objects"]
        if name in PARTS and any(cls == "FittedModel" for cls, _ in objects):
            return objects[self.state("FittedModel")[PARTS[name]]["object"]][1]
        return next(state for cls, state in reversed(self.header["objects"]) if cls == name)

    def get(self, index):
        stored = StoredArray(*self.header["arrays"][index])
        return restore([stored], memoryview(self.chunks[index]))[0]

    def set(self, index, array):
        (entry,), (self.chunks[index],) = store([array])
        self.header["arrays"][index] = list(entry)

    def array(self, name, attribute):
        return self.get(self.state(name)[attribute]["array"])

    def put(self, name, attribute, array):
        self.set(self.state(name)[attribute]["array"], array)

    def load(self):
        self.path.write_bytes(b"".join(pack(self.header, self.chunks)))
        return load(self.path)
