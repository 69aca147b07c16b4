//! What a sandbox may reach.

pub mod egress;
