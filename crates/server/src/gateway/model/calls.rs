//! All calls that this process has under way: they are kept alive in the store, and cut off when their sandbox has ended
//! or the process stops.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use omoi_protocol::CallId;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    scripted::Library,
    slot::Slots,
    upstream::{Error, Upstreams},
};
use crate::{
    config::{self, Config},
    store::{CALL_KEEP_PERIOD, Store},
};

/// The share of the grace period that calls have to end by themselves.
const GRACE_DIVISOR: u32 = 2;

#[derive(Clone)]
pub struct Calls(Arc<Inner>);

pub struct Inner {
    pub store: Store,
    pub upstreams: Upstreams,
    pub library: Library,
    pub config: config::Model,
    pub slots: Slots,
    pub tracker: TaskTracker,
    /// Told whenever a call has given back what it had reserved, and when it has ended.
    pub booked: Notify,
    under_way: Mutex<HashMap<CallId, CancellationToken>>,
}

impl std::ops::Deref for Calls {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// One of the calls under way, until it is dropped.
pub struct UnderWay {
    calls: Calls,
    id: CallId,
    /// Cancelled when the call is to be cut off.
    pub cut: CancellationToken,
}

impl Calls {
    pub fn start(
        config: &Config,
        store: &Store,
        library: Library,
        tracker: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, Error> {
        let model = config.model.clone();
        let calls = Self(Arc::new(Inner {
            store: store.clone(),
            upstreams: Upstreams::new(&model)?,
            library,
            slots: Slots::new(model.sandbox_calls_max, model.calls_max),
            config: model,
            tracker: tracker.clone(),
            booked: Notify::new(),
            under_way: Mutex::default(),
        }));
        let grace = config.server.shutdown_grace / GRACE_DIVISOR;
        tracker.spawn(calls.clone().keep(stop.child_token(), grace));
        Ok(calls)
    }

    pub fn enter(&self, id: &CallId) -> UnderWay {
        let cut = CancellationToken::new();
        self.under_way().insert(id.clone(), cut.clone());
        UnderWay { calls: self.clone(), id: id.clone(), cut }
    }

    async fn keep(self, stop: CancellationToken, grace: Duration) {
        let mut period = tokio::time::interval(CALL_KEEP_PERIOD);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = period.tick() => {}
            }
            if let Err(error) = self.keep_once().await {
                tracing::warn!(%error, "model calls under way could not be kept alive; tried again in a moment");
            }
        }
        let ended = async {
            loop {
                // Made before the look, so that none that ends in between is missed.
                let booked = self.booked.notified();
                if self.under_way().is_empty() {
                    return;
                }
                booked.await;
            }
        };
        if tokio::time::timeout(grace, ended).await.is_err() {
            self.under_way().values().for_each(CancellationToken::cancel);
        }
    }

    async fn keep_once(&self) -> Result<(), crate::store::Error> {
        let ids: Vec<CallId> = self.under_way().keys().cloned().collect();
        if ids.is_empty() {
            return Ok(());
        }
        for ended in self.store.call_keep(ids).await? {
            if let Some(cut) = self.under_way().get(&ended) {
                tracing::info!(call.id = %ended, "cut off model call {ended}: its sandbox has ended");
                cut.cancel();
            }
        }
        Ok(())
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashMap<CallId, CancellationToken>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.calls.under_way().remove(&self.id);
        self.calls.booked.notify_waiters();
    }
}
