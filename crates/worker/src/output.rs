//! What a command writes, cut into pieces that are worth an event each: bounded in size, gathered for a moment,
//! never cut in the middle of a character.

use std::{
    future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use omoi_protocol::event::{CommandOutput, CommandStream, OUTPUT_TEXT_BYTES_MAX};
use omoi_redact::Stream;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::outbox::Outbox;

/// How long the first byte of a piece waits for more.
const GATHER: Duration = Duration::from_millis(50);
/// The longest character but for its last byte: as much as is kept back for the rest of it.
const PARTIAL_BYTES_MAX: usize = 3;

/// How much all streams of one command have written, and how much of that is told to nobody.
#[derive(Debug)]
pub struct Written {
    bytes: AtomicU64,
    dropped: AtomicU64,
    told_max: u64,
}

impl Written {
    /// `told_bytes_max` is what all its pieces may have together.
    pub fn new(told_bytes_max: usize) -> Self {
        Self { bytes: AtomicU64::new(0), dropped: AtomicU64::new(0), told_max: told_bytes_max as u64 }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many of `count` new bytes may still be told.
    fn take(&self, count: usize) -> usize {
        let before = self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        let told = self.told_max.saturating_sub(before).min(count as u64) as usize;
        self.dropped.fetch_add((count - told) as u64, Ordering::Relaxed);
        told
    }
}

/// The last bytes of all that is written, for whoever looks at it when it is over.
#[derive(Debug)]
pub struct Tail {
    bytes: Mutex<Vec<u8>>,
    bytes_max: usize,
}

impl Tail {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Mutex::default(), bytes_max }
    }

    pub fn add(&self, more: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend_from_slice(more);
        let over = bytes.len().saturating_sub(self.bytes_max);
        bytes.drain(..over);
    }

    pub fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Whoever listens to a stream.
pub trait Listener {
    /// Everything that comes, as it comes. Whoever takes long slows the command down.
    fn hear(&self, _bytes: &[u8]) -> impl Future<Output = ()> + Send {
        future::ready(())
    }

    /// A piece of text. `lossy`: some of it was none; `dropped_bytes`: so much was not told.
    fn tell(&self, text: &str, lossy: bool, dropped_bytes: Option<u64>);
}

/// Pieces as events.
#[derive(Clone)]
pub struct Teller {
    pub outbox: Outbox,
    pub command_id: String,
    pub stream: CommandStream,
    pub tail: Option<Arc<Tail>>,
}

impl Listener for Teller {
    fn hear(&self, bytes: &[u8]) -> impl Future<Output = ()> + Send {
        if let Some(tail) = &self.tail {
            tail.add(bytes);
        }
        future::ready(())
    }

    fn tell(&self, text: &str, lossy: bool, dropped_bytes: Option<u64>) {
        self.outbox.push(CommandOutput {
            command_id: Some(self.command_id.clone()),
            stream: Some(self.stream.clone()),
            text: Some(text.to_owned()),
            lossy: lossy.then_some(true),
            dropped_bytes,
            ..CommandOutput::default()
        });
    }
}

/// What was heard and is not told yet.
struct Heard<'a, L> {
    to: &'a L,
    written: &'a Written,
    gathered: Vec<u8>,
    dropped: u64,
}

impl<L: Listener> Heard<'_, L> {
    /// Says whether there is something to tell.
    async fn add(&mut self, bytes: &[u8]) -> bool {
        self.to.hear(bytes).await;
        let told = self.written.take(bytes.len());
        self.dropped += (bytes.len() - told) as u64;
        self.gathered.extend_from_slice(&bytes[..told]);
        told > 0
    }
}

/// Reads to the end, or until `over` is true: something that the command left behind may hold the stream open. Secrets are
/// masked before anybody hears of them.
pub async fn pump(
    mut from: impl AsyncRead + Unpin,
    to: impl Listener,
    mut masked: Stream,
    written: Arc<Written>,
    mut over: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; OUTPUT_TEXT_BYTES_MAX];
    let mut heard = Heard { to: &to, written: &written, gathered: Vec::new(), dropped: 0 };
    let mut due = None;
    loop {
        tokio::select! {
            read = from.read(&mut buffer) => {
                let Ok(count @ 1..) = read else { break };
                let told = heard.add(&masked.push(&buffer[..count])).await;
                if heard.gathered.len() >= OUTPUT_TEXT_BYTES_MAX {
                    tell_gathered(&to, &mut heard.gathered, false);
                    due = None;
                } else if told {
                    due.get_or_insert_with(|| Instant::now() + GATHER);
                }
            }
            () = wait(due) => {
                tell_gathered(&to, &mut heard.gathered, false);
                due = None;
            }
            () = is_over(&mut over) => break,
        }
    }
    heard.add(&masked.finish()).await;
    tell_gathered(&to, &mut heard.gathered, true);
    if heard.dropped > 0 {
        to.tell("", false, Some(heard.dropped));
    }
}

/// Tells what is whole of `bytes`, and keeps back the beginning of a character unless nothing more comes.
fn tell_gathered(to: &impl Listener, bytes: &mut Vec<u8>, at_end: bool) {
    let whole = if at_end { bytes.len() } else { whole(bytes) };
    let text = String::from_utf8_lossy(&bytes[..whole]);
    let lossy = matches!(text, std::borrow::Cow::Owned(_));
    let mut rest = text.as_ref();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(OUTPUT_TEXT_BYTES_MAX));
        to.tell(piece, lossy, None);
        rest = more;
    }
    bytes.drain(..whole);
}

async fn is_over(over: &mut watch::Receiver<bool>) {
    let _ = over.wait_for(|over| *over).await;
}

async fn wait(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => future::pending().await,
    }
}

/// How much of `bytes` does not end in the middle of a character.
fn whole(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(PARTIAL_BYTES_MAX);
    let begins = (tail..bytes.len()).rev().find(|at| bytes[*at] & 0b1100_0000 != 0b1000_0000);
    match begins {
        Some(at) if std::str::from_utf8(&bytes[at..]).is_err_and(|error| error.error_len().is_none()) => at,
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use omoi_redact::Secrets;
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// All that was heard, and all that was told.
    #[derive(Debug, Clone, Default)]
    struct Both(Arc<Mutex<(Vec<u8>, String)>>);

    impl Listener for Both {
        async fn hear(&self, bytes: &[u8]) {
            self.0.lock().unwrap().0.extend_from_slice(bytes);
        }

        fn tell(&self, text: &str, _lossy: bool, _dropped_bytes: Option<u64>) {
            self.0.lock().unwrap().1.push_str(text);
        }
    }

    #[tokio::test]
    async fn a_secret_is_masked_however_the_command_writes_it() {
        let secret = "omoi_sbx_Ab3dEfGhIjKlMnOpQrStUvWxYz0123456789-_abcde";
        let text = format!("OMOI_TOKEN={secret}\nb21 {secret}");
        for step in [1, 7, 20, text.len()] {
            // No read gets more than this.
            let (mut command, stream) = tokio::io::duplex(step);
            let (both, over, written) =
                (Both::default(), watch::Sender::new(false), Arc::new(Written::new(1000)));
            let masked = Secrets::new([secret]).stream();
            let pumping = tokio::spawn(pump(stream, both.clone(), masked, written.clone(), over.subscribe()));
            command.write_all(text.as_bytes()).await.unwrap();
            drop(command);
            pumping.await.unwrap();
            let (heard, told) = both.0.lock().unwrap().clone();
            // The first characters, which every token shares, may have been told before there was more.
            let rest = "*".repeat(secret.len() - 3);
            assert_eq!(told.matches(&rest).count(), 2, "{told}");
            assert!(told.starts_with("OMOI_TOKEN=") && told.contains("\nb21 "), "{told}");
            assert_eq!((heard.len(), written.bytes()), (text.len(), text.len() as u64));
            assert_eq!(String::from_utf8(heard).unwrap(), told);
        }
    }

    #[test]
    fn no_character_is_cut() {
        let crab = "🦀".as_bytes();
        for (bytes, expected) in [
            (&b"abc"[..], 3),
            ("aü".as_bytes(), 3),
            (&"aü".as_bytes()[..2], 1),
            (&crab[..1], 0),
            (&crab[..3], 0),
            (crab, 4),
            // No beginning of a character at all.
            (&[0xff, 0xfe][..], 2),
            (&[0x80, 0x80, 0x80, 0x80][..], 4),
        ] {
            assert_eq!(whole(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn what_goes_beyond_the_limit_is_counted() {
        let written = Written::new(100);
        assert_eq!(written.take(99), 99);
        assert_eq!((written.take(3), written.take(5)), (1, 0));
        assert_eq!((written.bytes(), written.dropped()), (107, 7));
    }
}
