//! The body of a request on its way up, which remembers how far it came. When a request fails, this tells whether the
//! client sent something that is no body or the host gave no answer.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use super::forward::cause;

pub struct Upload {
    body: Incoming,
    pub progress: Arc<Progress>,
}

#[derive(Debug, Default)]
pub struct Progress {
    whole: AtomicBool,
    awaited: AtomicBool,
    broken: OnceLock<String>,
}

impl Progress {
    /// The client has sent all of it.
    pub fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Relaxed)
    }

    /// The host could take more than the client has sent.
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }

    /// Why the client's bytes are no body, if they are not.
    pub fn broken(&self) -> Option<String> {
        self.broken.get().cloned()
    }
}

impl Upload {
    pub fn new(body: Incoming) -> Self {
        let upload = Self { body, progress: Arc::default() };
        upload.note_end();
        upload
    }

    /// A body of a known length is not asked again once its last byte has come.
    fn note_end(&self) {
        if self.body.is_end_stream() {
            self.progress.whole.store(true, Ordering::Relaxed);
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.progress.awaited.store(polled.is_pending(), Ordering::Relaxed);
        let frame = ready!(polled);
        match &frame {
            None => self.progress.whole.store(true, Ordering::Relaxed),
            Some(Err(error)) => drop(self.progress.broken.set(cause(error))),
            Some(Ok(_)) => self.note_end(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
