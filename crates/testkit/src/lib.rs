//! What the tests need and no user does: image builders, seeded damage, oracles, hostile images, bodies of fuzz targets.

pub mod host;
