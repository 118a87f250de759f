"""Adapters to the interfaces of other libraries; each imports only the library that it is for."""
