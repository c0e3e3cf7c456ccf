//! Layout of an attribute area.
