"""The mechanism and its mathematics: arrays in, arrays out; no files, no geography, no Dask.

The public names are those of `__init__.pyi`; each is loaded from its module when it is first asked for. So
what asks for one number does not wait for the compiled samplers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
