//! Settings that are made and have no effect, with what to use in their place.

use omoi_server::config::Resolved;

use super::Check;

const AREA: &str = "settings";

pub fn checks(resolved: &Resolved) -> Vec<Check> {
    let check = |setting: &omoi_server::config::Ineffective| {
        Check::warn(AREA, setting.name, format!("no effect: {}", setting.why), setting.instead)
    };
    resolved.ineffective.iter().map(check).collect()
}
