//! Money or tokens spent since anything came of it; and a budget that is used up.

use jiff::Timestamp;
use omoi_protocol::FindingSeverity;

use super::Shown;
use crate::domain::supervision::{policy::Rules, trajectory::Trajectory};

/// Fewer calls tell nothing, however much they cost.
const CALLS_MIN: u32 = 4;

pub fn look(trajectory: &Trajectory, rules: &Rules, _: Timestamp) -> Option<Shown> {
    let spend = &trajectory.spend;
    let last_work = trajectory.work.map(|mark| mark.at).or(trajectory.began_at).unwrap_or(trajectory.at);
    if let Some(seq) = spend.exceeded {
        let text = format!("the budget is used up: {:.2} USD were spent", spend.usd);
        return Some(Shown {
            key: 2,
            severity: FindingSeverity::Critical,
            seqs: vec![seq],
            text,
            since: last_work,
        });
    }
    let usd = spend.usd_for_nothing();
    let limit = trajectory.charter.budget_usd.map_or(rules.burn_usd, |budget| budget * rules.burn_share);
    let tokens = spend.tokens_for_nothing();
    let text = match () {
        () if spend.calls_for_nothing < CALLS_MIN => return None,
        () if usd > 0.0 && usd >= limit => format!("{usd:.2} USD were spent since anything came of it"),
        () if tokens >= rules.burn_tokens => format!("{tokens} tokens were spent since anything came of it"),
        () => return None,
    };
    let seqs = trajectory.work.map(|mark| mark.seq).into_iter().chain([spend.last_seq]).collect();
    Some(Shown { key: 1, severity: FindingSeverity::Warning, seqs, text, since: last_work })
}
