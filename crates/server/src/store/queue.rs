//! The queue of writes, bounded by how many wait and by how much they hold.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{Error, event::Append, job::Job};

/// The room is counted in parts of this many bytes.
const PART_BYTES: usize = 1024;

/// What may be written.
pub(super) enum Work {
    /// Appends of a batch share their statements.
    Append(Append),
    /// A closure, and about how many bytes it holds.
    Job(Box<dyn Job>, usize),
}

impl Work {
    fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.bytes(),
            Self::Job(_, bytes) => *bytes,
        }
    }
}

/// What waits to be written. It has its room until it is answered.
pub(super) struct Item {
    pub work: Work,
    pub bytes: usize,
    _room: OwnedSemaphorePermit,
}

#[derive(Clone)]
pub(super) struct Queue {
    items: mpsc::Sender<Item>,
    room: Arc<Semaphore>,
    parts_max: u32,
}

impl Queue {
    pub fn new(items_max: usize, bytes_max: usize) -> (Self, mpsc::Receiver<Item>) {
        let (items, waiting) = mpsc::channel(items_max);
        let parts_max = parts(bytes_max).max(1);
        (Self { items, room: Arc::new(Semaphore::new(parts_max as usize)), parts_max }, waiting)
    }

    /// What is larger than all the room there is waits alone.
    pub fn push(&self, work: Work) -> Result<(), Error> {
        let bytes = work.bytes();
        let room = self.room.clone().try_acquire_many_owned(parts(bytes).min(self.parts_max));
        let item = Item { work, bytes, _room: room.map_err(|_| Error::Busy)? };
        self.items.try_send(item).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => Error::Unavailable("nobody writes to it here".to_owned()),
        })
    }
}

fn parts(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PART_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn work(bytes: usize) -> Work {
        let events = serde_json::json!([{ "event_type": "a", "event_data": { "text": "x".repeat(bytes) } }]);
        let (reply, _) = oneshot::channel();
        Work::Append(Append::new("sbx-1".parse().unwrap(), serde_json::from_value(events).unwrap(), reply))
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
