"""Builds the site of the documentation: ``PYTHONPATH=tools python -m docsite``, or `make docs`."""
