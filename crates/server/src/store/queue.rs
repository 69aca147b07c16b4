//! The queue of writes, bounded by how many wait and by how much they hold. No sandbox has more than its share of the room,
//! so that one which floods its own events holds up nobody else's.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use omoi_protocol::SandboxId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{Error, event::Append, job::Job};

/// The room is counted in parts of this many bytes.
const PART_BYTES: usize = 1024;
/// One sandbox may hold this part of the room.
const SHARE: usize = 8;

/// What may be written.
pub(super) enum Work {
    /// Appends of a batch share their statements.
    Append(Append),
    /// A closure, about how many bytes it holds, and whose they are if a sandbox sent them.
    Job(Box<dyn Job>, usize, Option<SandboxId>),
}

impl Work {
    fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.bytes(),
            Self::Job(_, bytes, _) => *bytes,
        }
    }

    fn sandbox(&self) -> Option<&SandboxId> {
        match self {
            Self::Append(append) => Some(&append.sandbox_id),
            Self::Job(_, _, sandbox) => sandbox.as_ref(),
        }
    }
}

/// What waits to be written. It has its room until it is answered.
pub(super) struct Item {
    pub work: Work,
    pub bytes: usize,
    _room: OwnedSemaphorePermit,
    _share: Option<Share>,
}

#[derive(Clone)]
pub(super) struct Queue {
    items: mpsc::Sender<Item>,
    room: Arc<Semaphore>,
    parts_max: u32,
    shares: Shares,
}

impl Queue {
    pub fn new(items_max: usize, bytes_max: usize) -> (Self, mpsc::Receiver<Item>) {
        let (items, waiting) = mpsc::channel(items_max);
        let parts_max = parts(bytes_max).max(1);
        let room = Arc::new(Semaphore::new(parts_max as usize));
        (Self { items, room, parts_max, shares: Shares::new(items_max, bytes_max) }, waiting)
    }

    /// What is larger than all the room there is waits alone.
    pub fn push(&self, work: Work) -> Result<(), Error> {
        let bytes = work.bytes();
        let share = match work.sandbox() {
            Some(sandbox) => self.shares.take(sandbox, bytes)?,
            None => None,
        };
        let room = self.room.clone().try_acquire_many_owned(parts(bytes).min(self.parts_max));
        let item = Item { work, bytes, _room: room.map_err(|_| Error::Busy)?, _share: share };
        self.items.try_send(item).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => Error::Unavailable("nobody writes to it here".to_owned()),
        })
    }
}

/// How many bytes of each sandbox wait.
#[derive(Clone)]
struct Shares {
    held: Arc<Mutex<HashMap<SandboxId, usize>>>,
    /// Smaller ones are not counted, which costs most requests nothing: even a queue full of them leaves half of the room.
    counted_from: usize,
    each_max: usize,
}

impl Shares {
    fn new(items_max: usize, bytes_max: usize) -> Self {
        let counted_from = bytes_max / items_max.max(1) / 2;
        Self { held: Arc::default(), counted_from, each_max: bytes_max / SHARE }
    }

    /// What is larger than a share waits as the only one of its sandbox.
    fn take(&self, sandbox: &SandboxId, bytes: usize) -> Result<Option<Share>, Error> {
        if bytes < self.counted_from {
            return Ok(None);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.get(sandbox).copied().unwrap_or(0);
        if before > 0 && before + bytes > self.each_max {
            return Err(Error::Busy);
        }
        held.insert(sandbox.clone(), before + bytes);
        Ok(Some(Share { of: self.held.clone(), sandbox: sandbox.clone(), bytes }))
    }
}

/// Held until what waits is answered.
struct Share {
    of: Arc<Mutex<HashMap<SandboxId, usize>>>,
    sandbox: SandboxId,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(&self.sandbox) {
            Some(bytes) if *bytes > self.bytes => *bytes -= self.bytes,
            _ => drop(held.remove(&self.sandbox)),
        }
    }
}

fn parts(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PART_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use tokio::sync::oneshot;

    use super::*;

    fn of(sandbox: &str, bytes: usize) -> Work {
        let events = serde_json::json!([{ "event_type": "a", "event_data": { "text": "x".repeat(bytes) } }]);
        let (reply, _) = oneshot::channel();
        Work::Append(Append::new(sandbox.parse().unwrap(), serde_json::from_value(events).unwrap(), reply))
    }

    /// Each of a sandbox of its own.
    fn work(bytes: usize) -> Work {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        of(&format!("sbx-{}", COUNT.fetch_add(1, Relaxed)), bytes)
    }

    #[test]
    fn a_sandbox_has_its_share_of_the_room_and_no_more() {
        let (queue, mut waiting) = Queue::new(1024, 8 << 20);
        assert!(queue.push(of("sbx-1", 600 << 10)).is_ok());
        assert!(matches!(queue.push(of("sbx-1", 600 << 10)), Err(Error::Busy)), "an eighth is its share");
        assert!(queue.push(of("sbx-1", 100)).is_ok(), "a heartbeat always gets through");
        assert!(queue.push(of("sbx-2", 600 << 10)).is_ok(), "others have theirs");
        drop(waiting.try_recv().unwrap());
        assert!(
            queue.push(of("sbx-1", 2 << 20)).is_ok(),
            "what is larger than a share waits as its only one"
        );
        assert!(matches!(queue.push(of("sbx-1", 600 << 10)), Err(Error::Busy)));
        drop(waiting);
        assert!(queue.shares.held.lock().unwrap().is_empty(), "what is answered holds nothing");
    }

    #[test]
    fn what_waits_holds_its_room_until_it_is_answered() {
        let (queue, mut waiting) = Queue::new(100, 1 << 20);
        assert!(queue.push(work(600 << 10)).is_ok());
        assert!(matches!(queue.push(work(600 << 10)), Err(Error::Busy)));
        assert!(queue.push(work(100 << 10)).is_ok(), "there is room for less");
        let taken = waiting.try_recv().unwrap();
        assert!(taken.bytes > 600 << 10);
        assert!(matches!(queue.push(work(600 << 10)), Err(Error::Busy)), "it is being written");
        drop(taken);
        assert!(queue.push(work(600 << 10)).is_ok());
    }

    #[test]
    fn what_is_larger_than_all_the_room_waits_alone() {
        let (queue, mut waiting) = Queue::new(100, 1 << 20);
        assert!(queue.push(work(2 << 20)).is_ok());
        assert!(matches!(queue.push(work(1)), Err(Error::Busy)));
        drop(waiting.try_recv().unwrap());
        assert!(queue.push(work(1)).is_ok());
        assert!(matches!(queue.push(work(2 << 20)), Err(Error::Busy)));
    }

    #[test]
    fn only_so_many_wait_however_small() {
        let (queue, waiting) = Queue::new(1, 1 << 20);
        assert!(queue.push(work(1)).is_ok());
        assert!(matches!(queue.push(work(1)), Err(Error::Busy)));
        drop(waiting);
        assert!(matches!(queue.push(work(1)), Err(Error::Unavailable(_))));
    }
}
