//! Work for a database thread: a closure over a transaction that may be run again if its batch has to be, and the
//! place its answer goes to.

use std::pin::Pin;

use tokio::sync::oneshot;

use super::{Error, Tx};

pub(super) type Answer<T> = oneshot::Sender<Result<T, Error>>;
pub(super) type Running<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

pub(super) enum Ran {
    /// It has an answer and its writes stand.
    Done,
    /// It has an answer, a refusal; whatever it wrote must not stand.
    Refused,
    /// The database failed.
    Fault(Error),
}

pub(super) trait Job: Send {
    fn run<'a>(&'a mut self, tx: &'a mut Tx) -> Running<'a, Ran>;
    /// Called once: after commit, or with the reason why there was none.
    fn finish(self: Box<Self>, committed: Result<(), Error>);
}

pub(super) struct Closure<F, T> {
    pub work: F,
    pub answer: Option<Result<T, Error>>,
    pub reply: Answer<T>,
}

impl<F, T> Job for Closure<F, T>
where
    F: AsyncFn(&mut Tx) -> Result<T, Error> + Send,
    T: Send,
{
    fn run<'a>(&'a mut self, tx: &'a mut Tx) -> Running<'a, Ran> {
        Box::pin(async move {
            match (self.work)(tx).await {
                Err(fault) if fault.is_fault() => Ran::Fault(fault),
                answer => {
                    let ran = if answer.is_ok() { Ran::Done } else { Ran::Refused };
                    self.answer = Some(answer);
                    ran
                }
            }
        })
    }

    fn finish(self: Box<Self>, committed: Result<(), Error>) {
        let Self { answer, reply, .. } = *self;
        // Whoever asked may have gone.
        let _ = reply.send(committed.and_then(|()| answer.unwrap_or(Err(Error::Busy))));
    }
}
