//! The model API behind a sandbox's door: it adds the real key, counts tokens and money, and keeps to the budgets. The
//! key stays on this side: it is added to what goes out, and masked in whatever comes back.
//!
//! A model called `scripted/NAME` is played by this process and goes to no vendor; all else about its calls is the same.
//!
//! `door` takes requests in, `own` asks what the server itself wants to know, `call` owns each from admission to its record, `meter` reads on the way what it used.

mod ask;
mod call;
mod calls;
mod door;
mod meter;
mod own;
mod refusal;
mod request;
mod scripted;
mod slot;
mod upstream;
mod usage;

pub use calls::Calls;
pub use door::routes;
pub use own::{Own, Tool, Unanswered};
pub use scripted::{Error as ScenarioError, Library};
pub use upstream::Error;
