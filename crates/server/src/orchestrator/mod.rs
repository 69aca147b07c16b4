//! Loops that look at stored state and move it one step towards what is wanted.

mod every;

mod overlap;
mod upkeep;

mod advance;
mod analyse;
mod combine;
mod commands;
mod conductor;
mod diagnose;
mod dispatch;
mod fetch;
mod guardian;
mod judge;
mod launch;
mod loops;
mod monitor;
mod node;
mod places;
mod supervise;

pub use advance::{Advance, advance};
pub use conductor::Conductor;
pub use diagnose::{Diagnose, diagnose};
pub use dispatch::{Dispatch, dispatch};
pub use fetch::{Fetch, fetch, settle};
pub use guardian::Guardian;
pub use judge::Judge;
pub use launch::Defaults;
pub use loops::Loops;
pub use monitor::Monitor;
pub use node::Node;
pub use overlap::overlaps;
pub use places::{Parts, Places};
pub use supervise::{Supervise, supervise};
pub use upkeep::{attend, upkeep};
