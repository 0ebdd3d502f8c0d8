//! The configuration as its users see it: set, read back, reload, rewrite.
