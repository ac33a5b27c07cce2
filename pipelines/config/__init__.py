"""The configuration of a release: its sections, read and checked before anything else happens."""
