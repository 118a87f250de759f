"""Prints the OpenAPI document of a service with the default limits and with keys, from which src/api.ts is made."""

import sys

import msgspec

from taciturn.service.api import openapi
from taciturn.service.api.local import Api
from taciturn.service.api.routes import endpoints
from taciturn.service.core.limits import Limits

LIMITS = Limits()
DOCUMENT = openapi.document(endpoints(Api, LIMITS), LIMITS, keyed=True)

if __name__ == "__main__":
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(DOCUMENT)).decode())
