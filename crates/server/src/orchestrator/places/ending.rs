//! The end of a sandbox: it is stopped and its work is kept. A rescue that fails is tried again, and after the last try a
//! person decides; nothing is removed here.

use std::time::Duration;

use omoi_protocol::sandbox::Kept;

use super::{Error, RESCUE_TIMEOUT, Shared};
use crate::{
    crash::Point,
    domain::place::AfterFailure,
    sandbox::{Inspection, Provider},
    store::{self, Placed},
};

impl Shared {
    /// Says whether there may be something to do next. A sandbox is stopped at once; its rescue begins when there is a place
    /// for it.
    pub(super) async fn end(&self, row: &Placed) -> bool {
        let error = match self.stop_and_keep(row).await {
            Ok(moved) => return moved,
            Err(error) => error,
        };
        let id = &row.id;
        self.doors.close(id);
        // A rescue that broke off may have left something running.
        if let Err(error) = self.provider.stop(id, Duration::ZERO).await {
            tracing::warn!(sandbox.id = %id, %error, "sandbox {id} cannot be stopped");
        }
        tracing::warn!(sandbox.id = %id, tries = row.rescue_tries, %error, "the work of sandbox {id} is not kept yet");
        Point::RescueFailed.pass();
        match self.failed(row, &error).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(sandbox.id = %id, %error, "that a rescue failed could not be stored");
                false
            }
        }
    }

    async fn stop_and_keep(&self, row: &Placed) -> Result<bool, Error> {
        let id = &row.id;
        if !self.rescues.has_stopped(id) {
            self.stop(row).await?;
            let left = match self.provider.inspect(id).await? {
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
        let Ok(rescued) = tokio::time::timeout(RESCUE_TIMEOUT, self.rescue(row)).await else {
            return Err(Error::RescueTimeout);
        };
        self.keep(row, rescued?).await?;
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

    async fn rescue(&self, row: &Placed) -> Result<Kept, Error> {
        let id = &row.id;
        let facts = self.store.place_rescue(id).await?;
        let order = self.order(&facts, None, row).await?;
        Point::RescueOrdered.pass();
        self.provider.rescue(&order).await?;
        Point::RescueBegun.pass();
        self.open_door(row).await?;
        let kept = self.provider.rescued(id).await?;
        self.doors.close(id);
        Point::Rescued.pass();
        Ok(kept)
    }

    /// Stores what follows from a failure. Where the store itself failed, no try was wasted.
    async fn failed(&self, row: &Placed, error: &Error) -> Result<(), store::Error> {
        let id = &row.id;
        if matches!(error, Error::Store(_)) {
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
