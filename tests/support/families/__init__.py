"""The test data of every family, a file each, named for its model_type."""

import importlib
import pkgutil

from support.family_data import FamilyData

FAMILIES: dict[str, FamilyData] = {
    name: importlib.import_module(f"{__name__}.{name}").DATA
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__))
}
