//! What a sandbox may reach, through its door alone.

pub mod door;
pub mod egress;
pub mod model;

mod git;

pub use git::routes as git_routes;
