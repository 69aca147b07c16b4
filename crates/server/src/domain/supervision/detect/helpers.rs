//! Helpers that get out of hand: too many at once, too many in all, or one and the same task again and again.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{policy::Rules, trajectory::Trajectory};

pub fn look(trajectory: &Trajectory, rules: &Rules, _: Timestamp) -> Option<Shown> {
    let helpers = &trajectory.helpers;
    let open: Vec<i64> = helpers.open().collect();
    let same = helpers.same_prompt();
    let (key, seqs, text) = match () {
        () if helpers.total as usize > rules.helpers_total => {
            (1, vec![helpers.last_seq], format!("{} helpers were asked", helpers.total))
        }
        () if open.len() > rules.helpers_at_once => {
            let text = format!("{} helpers work at once", open.len());
            (2, open, text)
        }
        () if same.len() >= rules.helpers_same => {
            let text = format!("helpers were asked the same thing {} times", same.len());
            (3, same, text)
        }
        () => return None,
    };
    Some(Shown { key, severity: FindingSeverity::Warning, seqs, text, since: trajectory.at })
}
