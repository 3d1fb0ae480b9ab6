//! `why`: every cause is produced for real.
