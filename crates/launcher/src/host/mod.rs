//! What the launcher does on the host, before and around the sandbox.

pub mod cgroup;
pub mod claim;
pub mod copy;
pub mod disk;
pub mod ids;
pub mod skeleton;
pub mod trees;
pub mod upper;
