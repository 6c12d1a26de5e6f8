"""The delivery log's HTTP API. Importing ``api.app`` needs the extra ``api``."""
