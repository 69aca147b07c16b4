//! What a sandbox may reach: the rules of hosts, ports and addresses. Default deny.
//!
//! A request passes two of them. The policy of its project says whether the host and port are wanted at all; then
//! every address that the host resolves to must be one of the public internet, whatever any list says.

mod address;
mod host;
mod pattern;
mod policy;

pub use address::{Cidr, Class, classify};
pub use host::{Host, HostError, Target};
pub use pattern::{Pattern, PatternError};
pub use policy::{Denied, Mode, Policy, Settings, SettingsError};
