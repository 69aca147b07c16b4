//! Tokens and sessions of open streams. A request is checked when it arrives; a stream, a long poll or a transfer lasts
//! longer than that. One loop per server looks up all secrets of open streams together, a few times a second, and ends
//! the streams of those that were revoked or have expired, whichever process revoked them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{gate::Key, problem::ApiError};
use crate::{
    clock::Clock,
    store::{self, Store},
};

/// Well below the second within which docs/security.md promises that a stream ends.
const CHECK_PERIOD: Duration = Duration::from_millis(400);

#[derive(Default)]
pub struct TokenWatch {
    open: Mutex<HashMap<Key, Open>>,
    check: Notify,
}

struct Open {
    streams: usize,
    /// The last known end of the secret. It also counts while the store does not answer.
    valid_until: Option<Timestamp>,
    ended: CancellationToken,
}

/// Held by an open stream for as long as it lasts.
#[derive(Clone)]
pub struct Watched(Arc<Entry>);

struct Entry {
    watch: Arc<TokenWatch>,
    key: Key,
    ended: CancellationToken,
}

impl Watched {
    /// Completes when the token or session has ended.
    pub async fn ended(&self) {
        self.0.ended.cancelled().await;
    }

    pub fn has_ended(&self) -> bool {
        self.0.ended.is_cancelled()
    }

    /// The answer to a request whose token ended while it waited.
    pub fn refusal() -> ApiError {
        ApiError::unauthorized("token_ended", "the token was revoked or expired while the request was open")
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = self.watch.lock();
        if let Some(entry) = open.get_mut(&self.key) {
            entry.streams -= 1;
            if entry.streams == 0 {
                open.remove(&self.key);
            }
        }
    }
}

impl TokenWatch {
    pub(super) fn watch(self: &Arc<Self>, key: Key) -> Watched {
        let mut open = self.lock();
        let entry = open.entry(key).or_insert_with(|| Open {
            streams: 0,
            valid_until: None,
            ended: CancellationToken::new(),
        });
        entry.streams += 1;
        let ended = entry.ended.clone();
        Watched(Arc::new(Entry { watch: self.clone(), key, ended }))
    }

    /// Checks at once, because a token was revoked in this process.
    pub(super) fn check_now(&self) {
        self.check.notify_one();
    }

    /// Ends streams until stopped.
    pub(super) async fn run(&self, store: &Store, clock: &Clock, stop: CancellationToken) {
        let mut period = tokio::time::interval(CHECK_PERIOD);
        period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = period.tick() => {}
                () = self.check.notified() => {}
            }
            let keys: Vec<Key> = self.lock().keys().copied().collect();
            if !keys.is_empty() {
                self.check(&keys, valid(store, &keys), clock).await;
            }
        }
    }

    /// A store that gives no answer delays the known ends of secrets by no more than a period.
    async fn check(
        &self,
        asked: &[Key],
        valid: impl Future<Output = Result<HashMap<Key, Option<Timestamp>>, store::Error>>,
        clock: &Clock,
    ) {
        let valid = tokio::time::timeout(CHECK_PERIOD, valid).await;
        self.end(asked, valid.ok().and_then(Result::ok), clock.now());
    }

    /// Ends the streams of the secrets that are not valid any more. Without an answer of the store, those whose known
    /// end has passed.
    fn end(&self, asked: &[Key], valid: Option<HashMap<Key, Option<Timestamp>>>, now: Timestamp) {
        let mut open = self.lock();
        for key in asked {
            let Some(entry) = open.get_mut(key) else { continue };
            let is_revoked = match valid.as_ref().map(|valid| valid.get(key)) {
                Some(Some(until)) => {
                    entry.valid_until = *until;
                    false
                }
                Some(None) => true,
                None => false,
            };
            if is_revoked || entry.valid_until.is_some_and(|until| until <= now) {
                entry.ended.cancel();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those of the secrets that were not revoked, each with its end.
async fn valid(store: &Store, keys: &[Key]) -> Result<HashMap<Key, Option<Timestamp>>, store::Error> {
    let (mut tokens, mut sessions) = (Vec::new(), Vec::new());
    for key in keys {
        match key {
            Key::Token(hash) => tokens.push(*hash),
            Key::Session(hash) => sessions.push(*hash),
        }
    }
    let mut valid = HashMap::with_capacity(keys.len());
    for (hash, until) in store.token_ends(&tokens).await? {
        valid.insert(Key::Token(hash), until);
    }
    for (hash, until) in store.session_ends(&sessions).await? {
        valid.insert(Key::Session(hash), Some(until));
    }
    Ok(valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_stream_ends_when_its_token_is_revoked_or_past_its_end_and_not_while_the_store_is_silent() {
        let watch = Arc::new(TokenWatch::default());
        let (a, b) = (Key::Token([1; 32]), Key::Session([2; 32]));
        let (first, second) = (watch.watch(a), watch.watch(b));
        watch.end(&[a, b], Some(HashMap::from([(a, Some(at(20))), (b, Some(at(50)))])), at(10));
        assert!(!first.has_ended() && !second.has_ended());
        watch.end(&[a, b], None, at(19));
        assert!(!first.has_ended(), "the store did not answer and its end has not come");
        watch.end(&[a, b], None, at(20));
        assert!(first.has_ended() && !second.has_ended(), "its last known end has come");
        watch.end(&[a, b], Some(HashMap::new()), at(21));
        assert!(second.has_ended(), "the store knows it no more");
    }

    #[tokio::test]
    async fn a_store_that_gives_no_answer_holds_up_no_known_end() {
        let watch = Arc::new(TokenWatch::default());
        let key = Key::Token([1; 32]);
        let stream = watch.watch(key);
        watch.end(&[key], Some(HashMap::from([(key, Some(at(20)))])), at(10));
        let (clock, asked) = (Clock::manual(at(20)), [key]);
        let checked = watch.check(&asked, std::future::pending(), &clock);
        tokio::time::timeout(Duration::from_secs(10), checked).await.unwrap();
        assert!(stream.has_ended());
    }

    #[test]
    fn a_token_is_watched_while_one_of_its_streams_is_open() {
        let watch = Arc::new(TokenWatch::default());
        let key = Key::Token([1; 32]);
        let (first, second) = (watch.watch(key), watch.watch(key));
        drop(first);
        assert_eq!(watch.lock().len(), 1);
        let third = second.clone();
        drop(second);
        assert_eq!(watch.lock().len(), 1);
        drop(third);
        assert_eq!(watch.lock().len(), 0);
    }
}
