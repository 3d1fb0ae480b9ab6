# Sourced by scripts that build everything, before they build anything, from the top of the repository.

# A cold build is what takes most of their time. Without what later builds would reuse, and without line numbers for debuggers,
# the workspace takes two fifths less of the processor. All must build alike, or each would build everything anew.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
