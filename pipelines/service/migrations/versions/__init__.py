"""The revisions, each a step from the tables of one version to those of the next."""
