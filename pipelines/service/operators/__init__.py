"""The operators' side: what they see and do, as pages and as an API."""
