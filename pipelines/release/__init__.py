"""What a release is to its readers: certificate, files, signature; reading and verifying it from these alone."""
