//! Which bytes of an area are taken.
