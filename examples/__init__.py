"""Example configurations, installed as ``pipelines.examples``.

This file makes the folder a package: an editable installation does not find it under that name otherwise.
"""
