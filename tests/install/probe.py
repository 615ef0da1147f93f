"""Every module of the library, and an estimator that trains and predicts. It runs where nothing else is installed."""

import importlib
import pkgutil

import numpy as np

import crossward


def broken(name):
    raise ImportError(f"{name} cannot be imported")


modules = [module.name for module in pkgutil.walk_packages(crossward.__path__, "crossward.", onerror=broken)]
for module in modules:
    importlib.import_module(module)
assert {"crossward.client.http", "crossward.learning.plr", "crossward.study.study"} <= set(modules)
print(f"imported: {len(modules)} modules of crossward {crossward.__version__}")

generator = np.random.default_rng(0)
records = generator.uniform(-1, 1, (4000, 2))
outcomes = records @ [3.0, -2.0] + generator.logistic(size=4000) > 0
model = crossward.PrivateLogisticRegression(epsilon=1.0, bounds=([-1, -1], [1, 1])).fit(records[:3000], outcomes[:3000])
correct = float(np.mean(model.predict(records[3000:]) == outcomes[3000:]))
assert correct > 0.7, correct
assert model.privacy_spent_.epsilon == 1.0
print(f"trained: {correct:.0%} of 1,000 predictions correct at epsilon 1")
