//! What a sandbox may reach, through its door alone.

pub mod door;
pub mod egress;
pub mod model;
