//! Changes that are about to be followed: looking at the work tree for the first time takes its while, in which the model can
//! already be asked. Nothing is to be changed before it is done.

use tokio::task::JoinHandle;

use super::Changes;

pub struct Opening {
    under_way: Option<JoinHandle<Option<Changes>>>,
    open: Option<Changes>,
}

impl Opening {
    pub fn begin(opens: impl Future<Output = Option<Changes>> + Send + 'static) -> Self {
        Self { under_way: Some(tokio::spawn(opens)), open: None }
    }

    /// Waits until they are followed. None where that did not work.
    pub async fn open(&mut self) -> Option<&mut Changes> {
        if let Some(opens) = &mut self.under_way {
            self.open = opens.await.unwrap_or_default();
            self.under_way = None;
        }
        self.open.as_mut()
    }
}

impl Drop for Opening {
    /// Nobody needs it any more, and its Git ends with it.
    fn drop(&mut self) {
        if let Some(opens) = &self.under_way {
            opens.abort();
        }
    }
}
