"""The public side: the catalogue, its pages and API, downloads and questions about flows."""
