//! The time, handed to whoever needs it: the machine's, or one that a test turns by hand.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use jiff::{SignedDuration, Timestamp};

#[derive(Clone, Debug)]
pub enum Clock {
    Real,
    /// Microseconds since 1970.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    pub fn manual(start: Timestamp) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(start.as_microsecond())))
    }

    /// Whole microseconds: what the store keeps.
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
    pub fn now(&self) -> Timestamp {
        let micros = match self {
            Self::Real => Timestamp::now().as_microsecond(),
            Self::Manual(micros) => micros.load(Ordering::SeqCst),
        };
        Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
    }

    /// Turns a manual clock; the machine's cannot be turned.
    pub fn advance(&self, by: SignedDuration) {
        if let Self::Manual(micros) = self {
            micros.fetch_add(i64::try_from(by.as_micros()).unwrap_or(0), Ordering::SeqCst);
        }
    }
}
