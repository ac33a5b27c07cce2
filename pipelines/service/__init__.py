"""The service: releases on request, on schedule and on the web (docs/service.md).

The public names are those of `__init__.pyi`; each is loaded from its module when it is first asked for, so
that the process in which a run is at work never loads the web application or the database.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
