//! A model that plays scenarios: chosen by name, `scripted/NAME`, it says and does what a file tells it to, and all
//! around it is real: the wire, the meter, budgets and records. No key is needed and nothing leaves the process.
//!
//! It keeps no state. Which step comes next is a function of the request alone (`place`), so that restarts, retries and
//! resumed sessions need nothing; only faults that happen a number of times are remembered (`faults`), and those may
//! happen again.
//!
//! `read` makes a `scenario` of a file, `library` holds them all, `talk` understands a request, `speech` is what a step
//! says to it, `messages` and `chat` write that for either wire, and `reply` brings it out, in its time or broken.

mod chat;
mod faults;
mod fill;
mod library;
mod messages;
mod place;
mod read;
mod reply;
mod scenario;
mod speech;
mod talk;

pub use library::Library;
pub use read::Error;
pub use reply::{Part, Reply};
