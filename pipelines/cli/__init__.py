"""The command `odsynth`: each verb a few lines over the Python function of its name."""

from pipelines.cli.main import main as main
