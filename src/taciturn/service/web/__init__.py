"""The page of the service: what the agents do, as it happens, and forms to try them."""

from taciturn.service.web.pages import add_page

__all__ = ["add_page"]
