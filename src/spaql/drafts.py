"""Half-written files: how their names begin, so that whoever writes in the same folder next knows them."""

PART = ".spaql-"
