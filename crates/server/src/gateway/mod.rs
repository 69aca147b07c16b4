//! What a sandbox may reach through its door.

mod git;

pub use git::routes as git_routes;
