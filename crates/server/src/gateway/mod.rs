//! What a sandbox may reach besides the API, each through a door of its own.

pub mod model;
