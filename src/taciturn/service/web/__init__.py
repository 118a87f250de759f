"""The page of the service: live views of the agents, and forms to try them."""

from taciturn.service.web.local import add_page

__all__ = ["add_page"]
