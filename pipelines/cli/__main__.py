"""``python -m pipelines.cli`` is the command `odsynth`."""

import sys

from pipelines.cli.main import main

sys.exit(main())
