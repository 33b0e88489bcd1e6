"""The labels of a proven image."""

from __future__ import annotations

LANE, BUILD_ID = "io.imgbuild.lane", "io.imgbuild.build-id"
LOCK_DIGEST, GATES = "io.imgbuild.lock-digest", "io.imgbuild.gates"
PROVEN = "io.imgbuild.proven"  # digest of what the gates saw, see model/proven
CREATED = "org.opencontainers.image.created"
ENV = "io.imgbuild.env"  # names of the variables that the lane gives the image
