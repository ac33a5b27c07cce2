"""Public geography, public tables and job sources.

Readers return arrays of block or unit numbers of one `Geography`; codes are text at the edges only. The
public side of jobs (`Slots`) and their confidential side (`JobRecords`) are read by different functions.

The public names are those of `__init__.pyi`; each is loaded from its module when it is first asked for. So
what verifies a release, which imports modules one by one, never loads a reader of jobs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
