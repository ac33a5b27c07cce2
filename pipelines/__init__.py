"""Release configurations, plans, runs, certificates, verification, views and the command line, in rooms.

The public names are those of `__init__.pyi`; each is loaded from its room when it is first asked for, so that
a program that verifies a release never loads what reads confidential files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
