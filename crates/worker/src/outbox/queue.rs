//! Events on their way to the server: numbered, on disk, oldest first.

use std::{collections::VecDeque, fs::File, io};

use omoi_protocol::{
    EventSource,
    event::{AgentError, NewEvent, Payload, is_vital},
};

use super::spool::{Left, Spool};

/// What one request carries at most; the server takes more of both.
const BATCH_EVENTS_MAX: usize = 200;
const BATCH_BYTES_MAX: usize = 512 * 1024;

#[derive(Debug)]
pub struct Queue {
    /// None when the disk could not be used from the start.
    spool: Option<Spool>,
    waiting: VecDeque<NewEvent>,
    acknowledged: i64,
    last: i64,
    /// The disk's trouble has been told.
    told: bool,
    /// The server has room for nothing but what is vital.
    is_full: bool,
}

impl Queue {
    pub fn new(spool: Option<Spool>, left: Left) -> Self {
        let last = left.events.last().and_then(|event| event.worker_seq).unwrap_or(left.acknowledged);
        Self {
            spool,
            waiting: left.events.into(),
            acknowledged: left.acknowledged,
            last,
            told: false,
            is_full: false,
        }
    }

    /// Takes an event, unless it is a heartbeat and one waits already: the second would say the same. Nor one that the
    /// server has no room for.
    pub fn push(&mut self, event: NewEvent) {
        if self.is_full && !is_vital(&event.event_type) {
            return;
        }
        if event.is_heartbeat() && self.waiting.iter().any(NewEvent::is_heartbeat) {
            return;
        }
        self.number(event);
        match self.save() {
            Err(error) if !self.told => {
                self.told = true;
                self.number(trouble(&error));
            }
            Err(_) => {}
            Ok(()) => self.told = false,
        }
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn acknowledged(&self) -> i64 {
        self.acknowledged
    }

    /// The last number that was given.
    pub fn last(&self) -> i64 {
        self.last
    }

    /// The oldest that wait, as many as fit one request, and at most `count_max`.
    pub fn batch(&self, count_max: usize) -> Vec<NewEvent> {
        let mut bytes = 0;
        let fits = |event: &&NewEvent| {
            let first = bytes == 0;
            bytes += event.event_data.get().len() + event.event_type.len() + 100;
            first || bytes <= BATCH_BYTES_MAX
        };
        self.waiting.iter().take(count_max.min(BATCH_EVENTS_MAX)).take_while(fits).cloned().collect()
    }

    /// The server has everything up to `number`.
    pub fn acknowledge(&mut self, number: i64) {
        self.acknowledged = self.acknowledged.max(number);
        while self.waiting.front().is_some_and(|event| event.worker_seq <= Some(number)) {
            self.waiting.pop_front();
        }
        if let Some(spool) = &mut self.spool {
            let _ = spool.acknowledge(self.acknowledged, !self.waiting.is_empty());
        }
    }

    /// Counts those that wait from `first` on, because the server knows of other numbers than this disk does.
    pub fn renumber(&mut self, first: i64) {
        self.acknowledged = first - 1;
        self.last = self.acknowledged;
        for event in &mut self.waiting {
            self.last += 1;
            event.worker_seq = Some(self.last);
        }
        if let Some(spool) = &mut self.spool {
            let _ = spool.rewrite(self.acknowledged, self.waiting.iter());
        }
    }

    /// Lets go of all that the server has no room for, now and from now on; `note` says so in its place, once.
    pub fn thin(&mut self, note: NewEvent) {
        let first = self.waiting.front().and_then(|event| event.worker_seq).unwrap_or(self.last + 1);
        self.waiting.retain(|event| is_vital(&event.event_type));
        if !self.is_full {
            self.is_full = true;
            self.waiting.push_front(note);
        }
        self.renumber(first);
    }

    /// Puts `other` in the place of the oldest, under its number, because the server will never take it.
    pub fn replace_first(&mut self, other: NewEvent) {
        if let Some(first) = self.waiting.front_mut() {
            *first = NewEvent { worker_seq: first.worker_seq, ..other };
        }
        if let Some(spool) = &mut self.spool {
            let _ = spool.rewrite(self.acknowledged, self.waiting.iter());
        }
    }

    pub fn disk(&self) -> Option<File> {
        self.spool.as_ref().and_then(|spool| spool.handle().ok())
    }

    fn number(&mut self, event: NewEvent) {
        self.last += 1;
        self.waiting.push_back(NewEvent { worker_seq: Some(self.last), ..event });
    }

    /// Writes what is not on disk yet, and so everything that an earlier trouble has kept from it.
    fn save(&mut self) -> io::Result<()> {
        let Some(spool) = &mut self.spool else { return Err(io::Error::other("there is no disk for it")) };
        let upto = spool.upto();
        spool.append(self.waiting.iter().filter(|event| event.worker_seq > Some(upto)))
    }
}

fn trouble(error: &io::Error) -> NewEvent {
    let error =
        format!("events cannot be kept on disk ({error}); until they can, they wait in the worker's memory");
    let event = AgentError {
        error: Some(error),
        phase: Some("spool".to_owned()),
        fatal: Some(false),
        ..AgentError::default()
    };
    NewEvent::new(&Payload::from(event), EventSource::Worker)
}
