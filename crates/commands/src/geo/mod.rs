//! Commands of points on the earth, which are sorted sets of geohashes.

pub mod points;
pub mod search;
