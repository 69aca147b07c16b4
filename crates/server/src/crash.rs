//! Points between two steps at which a test lets this process die, as `kill -9` would have it. A program that is built to
//! be used has none: without debug assertions nothing is armed and `Point::pass` is empty.

#[cfg(debug_assertions)]
use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

/// What has just happened. Those of `ALL` in the order in which a sandbox comes to its end and its task goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Dispatch knows which task is next and has written nothing.
    Found,
    /// Its sandbox is ordered, and nobody was told.
    Ordered,
    /// A sandbox ends, with what that means for its task; not committed.
    Ending,
    /// That is committed, and nothing else has happened.
    Ended,
    Stopped,
    /// The rescue has its token and has not begun.
    RescueOrdered,
    RescueBegun,
    /// The rescue is over, and only its log says so.
    Rescued,
    Kept,
    /// Its directory is gone.
    Removed,
    /// And its checkout is free.
    Released,
    Gone,
    /// A rescue has failed, and that is not stored.
    RescueFailed,
    /// Its work could not be kept; that is stored, and nothing else has happened.
    Unkept,
}

impl Point {
    /// What a sandbox passes whose work can be kept.
    pub const ALL: [Self; 12] = [
        Self::Found,
        Self::Ordered,
        Self::Ending,
        Self::Ended,
        Self::Stopped,
        Self::RescueOrdered,
        Self::RescueBegun,
        Self::Rescued,
        Self::Kept,
        Self::Removed,
        Self::Released,
        Self::Gone,
    ];

    /// What a sandbox passes besides, whose work cannot be kept.
    pub const OF_FAILED_RESCUES: [Self; 2] = [Self::RescueFailed, Self::Unkept];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Ordered => "ordered",
            Self::Ending => "ending",
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::RescueOrdered => "rescue_ordered",
            Self::RescueBegun => "rescue_begun",
            Self::Rescued => "rescued",
            Self::Kept => "kept",
            Self::Removed => "removed",
            Self::Released => "released",
            Self::Gone => "gone",
            Self::RescueFailed => "rescue_failed",
            Self::Unkept => "unkept",
        }
    }

    /// Dies here if this is the point, and it is passed for the last time that is to be survived.
    pub fn pass(self) {
        #[cfg(debug_assertions)]
        if let Some(armed) = ARMED.get().filter(|armed| armed.point == self)
            && armed.left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            std::process::abort();
        }
    }
}

#[cfg(debug_assertions)]
static ARMED: OnceLock<Armed> = OnceLock::new();

#[cfg(debug_assertions)]
struct Armed {
    point: Point,
    left: AtomicUsize,
}

/// `kept`, or `kept:2` for the second time that it is passed. What is none of the points is nothing.
pub fn arm(wish: Option<&str>) {
    #[cfg(debug_assertions)]
    if let Some(wish) = wish {
        let (name, nth) = wish.split_once(':').unwrap_or((wish, "1"));
        let mut all = Point::ALL.into_iter().chain(Point::OF_FAILED_RESCUES);
        let point = all.find(|point| point.as_str() == name);
        if let (Some(point), Ok(nth)) = (point, nth.parse()) {
            tracing::warn!(wish, "this process dies at {wish}");
            let _ = ARMED.set(Armed { point, left: AtomicUsize::new(nth) });
        }
    }
    #[cfg(not(debug_assertions))]
    let _ = wish;
}
