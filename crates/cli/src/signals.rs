//! SIGINT and SIGTERM, answered alike. `main` installs the handlers before the command prints anything, and a signal that
//! arrives is remembered until the command takes it. So no signal is lost between a line that invites one ("until Ctrl-C")
//! and the code that waits for it.
//!
//! Commands that only ask and print install nothing: the system ends them.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
};

use crate::failure::{FAILED, INTERRUPTED, Stop, TERMINATED};

/// What asked the program to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Interrupted,
    Terminated,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupted => "interrupted",
            Self::Terminated => "asked to terminate",
        })
    }
}

/// The signals of this process. Clones share them; each signal is taken once.
#[derive(Debug, Clone, Default)]
pub struct Signals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The signal that the command has not taken yet.
    pending: Mutex<Option<Asked>>,
    arrived: Notify,
}

impl Signals {
    /// Installs the handlers; they are in place when this returns. Must be called on a runtime.
    pub fn install(&self) -> io::Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let signals = self.clone();
        tokio::spawn(async move {
            loop {
                let asked = tokio::select! {
                    _ = interrupt.recv() => Asked::Interrupted,
                    _ = terminate.recv() => Asked::Terminated,
                };
                if !signals.remember(asked) {
                    end_at_once(asked);
                }
            }
        });
        Ok(())
    }

    /// The next signal, which may have arrived before the call. Waits for ever where no handler is installed.
    pub async fn next(&self) -> Asked {
        loop {
            if let Some(asked) = self.pending().take() {
                return asked;
            }
            self.0.arrived.notified().await;
        }
    }

    /// Does what ends the command; a further signal ends it without that. A signal that the command has not taken yet is
    /// the request to end, and no further one.
    pub async fn unless_again<T>(&self, ending: impl Future<Output = Result<T>>) -> Result<T> {
        self.pending().take();
        tokio::select! {
            ended = ending => ended,
            asked = self.next() => {
                Err(Stop::new(FAILED, format!("stopped at once: {asked} while it was stopping")).into())
            }
        }
    }

    /// False when the command has not taken the signal before this one.
    fn remember(&self, asked: Asked) -> bool {
        let is_first = self.pending().replace(asked).is_none();
        self.0.arrived.notify_one();
        is_first
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Option<Asked>> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The command is busy with something that does not look at signals, and was asked twice.
#[expect(clippy::disallowed_methods, reason = "a second signal ends the program, whatever it is doing")]
fn end_at_once(asked: Asked) -> ! {
    std::process::exit(i32::from(match asked {
        Asked::Interrupted => INTERRUPTED,
        Asked::Terminated => TERMINATED,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_that_came_early_is_taken_later_and_once() {
        let signals = Signals::default();
        assert!(signals.remember(Asked::Terminated));
        assert!(!signals.remember(Asked::Interrupted), "two that nobody took end the program");
        assert_eq!(signals.next().await, Asked::Interrupted);
        let later = signals.clone();
        let waiting = tokio::spawn(async move { later.next().await });
        tokio::task::yield_now().await;
        assert!(signals.remember(Asked::Terminated));
        assert_eq!(waiting.await.unwrap(), Asked::Terminated);
    }

    #[tokio::test]
    async fn a_further_signal_cuts_an_ending_short() {
        let signals = Signals::default();
        assert_eq!(signals.unless_again(async { Ok(7) }).await.unwrap(), 7);
        signals.remember(Asked::Interrupted);
        let ending = async {
            tokio::task::yield_now().await;
            Ok(8)
        };
        assert_eq!(signals.unless_again(ending).await.unwrap(), 8, "the first signal asked for the ending");
        signals.remember(Asked::Interrupted);
        let again = signals.clone();
        let ending = async move {
            again.remember(Asked::Terminated);
            std::future::pending::<Result<()>>().await
        };
        let cut = signals.unless_again(ending).await.unwrap_err();
        assert!(cut.to_string().contains("stopped at once: asked to terminate"), "{cut}");
    }
}
