//! What happens in a sandbox: every type of event, what each carries, and the two shapes in which events
//! travel.
//!
//! An event's data stays raw JSON from the worker to the page. `Payload` is a typed view of it, for those who
//! act on it or make it; whatever a view does not know passes through it unharmed.

mod kind;
mod limit;
mod part;
mod payload;
mod record;

pub use kind::*;
pub use limit::*;
pub use part::{CommandStream, Common, ContinuousStop, Decimal, FileChange, IterationState, StreamErrorType};
pub use record::{NewEvent, StoredEvent};
