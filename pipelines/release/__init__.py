"""What a release is to its readers: certificate, files, signature; read and verified from these alone."""
