//! The end of a sandbox: it is stopped and its work is kept. A rescue that fails is tried again, and after the last try a
//! person decides; nothing is removed here. What keeps a rescue from running and may pass is not a try: an outage of the
//! server's own must not cost anybody's work.

use std::time::Duration;

use omoi_protocol::sandbox::Kept;

use super::{Error, RESCUE_TIMEOUT, Shared};
use crate::{
    crash::Point,
    domain::place::AfterFailure,
    sandbox::{Inspection, Provider},
    store::{self, Placed},
};

/// Why the work of a sandbox is not kept yet.
enum Failure {
    /// The rescue ran and did not keep it.
    Rescue(Error),
    /// Something else of the server's failed, so the rescue did not run or what it kept is not stored.
    Outage(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Outage(error)
    }
}

impl Shared {
    /// Says whether there may be something to do next. A sandbox is stopped at once; its rescue begins when there is a place
    /// for it.
    pub(super) async fn end(&self, row: &Placed) -> bool {
        let mut failure = match self.stop_and_keep(row).await {
            Ok(moved) => return moved,
            Err(failure) => failure,
        };
        let id = &row.id;
        self.doors.close(id);
        // A rescue that broke off may have left something running.
        if let Err(error) = self.provider.stop(id, Duration::ZERO).await {
            tracing::warn!(sandbox.id = %id, %error, "sandbox {id} cannot be stopped");
            failure = Failure::Outage(error.into());
        }
        let (error, counts) = match failure {
            Failure::Rescue(error) => (error, true),
            // What cannot pass ends like a rescue that fails: a person decides.
            Failure::Outage(error) => {
                let counts = !error.may_pass();
                (error, counts)
            }
        };
        tracing::warn!(
            sandbox.id = %id, tries = row.rescue_tries, counts, %error, "the work of sandbox {id} is not kept yet"
        );
        Point::RescueFailed.pass();
        match self.failed(row, &error, counts).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(sandbox.id = %id, %error, "that a rescue failed could not be stored");
                false
            }
        }
    }

    async fn stop_and_keep(&self, row: &Placed) -> Result<bool, Failure> {
        let id = &row.id;
        if !self.rescues.has_stopped(id) {
            self.stop(row).await?;
            let left = match self.provider.inspect(id).await.map_err(Error::from)? {
                Inspection::Absent => false,
                // It never came so far as to have a work tree.
                _ => row.base_commit.is_some(),
            };
            if !left {
                self.keep(row, Kept::default()).await?;
                return Ok(true);
            }
            self.rescues.stopped(id);
        }
        let Some(_slot) = self.rescues.take(row) else { return Ok(false) };
        let Ok(began) = tokio::time::timeout(RESCUE_TIMEOUT, self.begin_rescue(row)).await else {
            return Err(Failure::Outage(Error::RescueTimeout));
        };
        began?;
        let kept = match tokio::time::timeout(RESCUE_TIMEOUT, self.provider.rescued(id)).await {
            Ok(kept) => kept.map_err(|error| Failure::Rescue(error.into()))?,
            Err(_) => return Err(Failure::Rescue(Error::RescueTimeout)),
        };
        self.doors.close(id);
        Point::Rescued.pass();
        self.keep(row, kept).await?;
        Ok(true)
    }

    async fn stop(&self, row: &Placed) -> Result<(), Error> {
        Point::Ended.pass();
        let _permit = self.stops.acquire().await;
        self.provider.stop(&row.id, self.defaults.sandbox.stop_grace).await?;
        Point::Stopped.pass();
        self.doors.close(&row.id);
        Ok(())
    }

    /// Stores what was kept. Where a part could not be, the disk stays until a person decides: another try would end alike.
    async fn keep(&self, row: &Placed, kept: Kept) -> Result<(), Error> {
        if let Some(loss) = kept.loss() {
            let left = self.provider.disk_bytes(&row.id).await.unwrap_or(0);
            self.store.place_kept_in_part(&row.id, kept, &loss, left).await?;
            Point::Unkept.pass();
            tell_unkept(row, &loss);
            return Ok(());
        }
        let stays = !self.defaults.sandbox.keep_ended.is_zero();
        let left = if stays { self.provider.disk_bytes(&row.id).await? } else { 0 };
        self.store.place_kept(&row.id, kept, left).await?;
        Point::Kept.pass();
        Ok(())
    }

    async fn begin_rescue(&self, row: &Placed) -> Result<(), Error> {
        let facts = self.store.place_rescue(&row.id).await?;
        let order = self.order(&facts, None, row).await?;
        Point::RescueOrdered.pass();
        self.provider.rescue(&order).await?;
        Point::RescueBegun.pass();
        match self.open_door(row).await {
            // Its init does not answer because the rescue has ended already. What it said tells how.
            Err(Error::Sandbox(_)) => Ok(()),
            opened => opened,
        }
    }

    /// Stores what follows from a failure, and whether it counts as a try.
    async fn failed(&self, row: &Placed, error: &Error, counts: bool) -> Result<(), store::Error> {
        let id = &row.id;
        if !counts {
            return self.store.place_try_again(row, &error.to_string()).await;
        }
        match self.patience.after(row.rescue_tries.saturating_add(1)) {
            AfterFailure::TryAgain(wait) => self.store.place_rescue_again(id, &error.to_string(), wait).await,
            AfterFailure::GiveUp => {
                let left = self.provider.disk_bytes(id).await.unwrap_or(0);
                self.store.place_unkept(id, &error.to_string(), left).await?;
                Point::Unkept.pass();
                tell_unkept(row, &error.to_string());
                Ok(())
            }
        }
    }
}

fn tell_unkept(row: &Placed, why: &str) {
    let id = &row.id;
    tracing::error!(
        sandbox.id = %id,
        "the work of sandbox {id} could not be kept ({why}); decide with `omoi sandbox rescue {id}` or \
         `omoi sandbox discard {id}`"
    );
}
