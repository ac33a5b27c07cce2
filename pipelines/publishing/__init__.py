"""Publication: the public folder of a finished release, copied to where readers find it, once."""
