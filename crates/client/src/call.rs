//! One call: a request, sent as often as that is harmless and useful, and its answer read into a type.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    RequestBuilder, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Client, Error};

pub(crate) struct Call<'c> {
    client: &'c Client,
    request: RequestBuilder,
    timeout: Duration,
    repeat: Repeat,
}

/// When a failed call may be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// Only if it certainly changed nothing: there was no connection, or it was turned away at the door.
    Unheard,
    /// Whatever became of it: a second time changes nothing.
    Always,
}

/// An attempt that failed, and when the server wants to see the next one.
struct Failed {
    error: Error,
    unheard: bool,
    retry_after: Option<Duration>,
}

impl<'c> Call<'c> {
    pub fn new(client: &'c Client, request: RequestBuilder) -> Self {
        Self { client, request, timeout: client.timeout, repeat: Repeat::Unheard }
    }

    pub fn repeatable(self) -> Self {
        Self { repeat: Repeat::Always, ..self }
    }

    /// The server may take this much longer than usual.
    pub fn longer_by(self, wait: Duration) -> Self {
        Self { timeout: self.timeout + wait, ..self }
    }

    pub fn query(self, query: &(impl Serialize + ?Sized)) -> Self {
        Self { request: self.request.query(query), ..self }
    }

    pub fn body(self, body: &(impl Serialize + ?Sized)) -> Self {
        Self { request: self.request.json(body), ..self }
    }

    /// Bytes as they are.
    pub fn raw(self, content_type: &str, bytes: Bytes) -> Self {
        Self { request: self.request.header(CONTENT_TYPE, content_type).body(bytes), ..self }
    }

    pub async fn bytes(self) -> Result<Bytes, Error> {
        Ok(self.send().await?.1)
    }

    pub async fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let url = self.client.url().to_owned();
        let (_, body) = self.send().await?;
        read(&url, &body)
    }

    /// `None` for an answer without content.
    pub async fn json_if_any<T: DeserializeOwned>(self) -> Result<Option<T>, Error> {
        let url = self.client.url().to_owned();
        match self.send().await? {
            (StatusCode::NO_CONTENT, _) => Ok(None),
            (_, body) => read(&url, &body).map(Some),
        }
    }

    pub async fn text(self) -> Result<String, Error> {
        let (_, body) = self.send().await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn send(self) -> Result<(StatusCode, Bytes), Error> {
        let mut failures = 0;
        loop {
            let request = self.request.try_clone().expect("every body of ours is in memory");
            let failed = match self.attempt(request).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            failures += 1;
            let again = failed.error.is_passing() && (failed.unheard || self.repeat == Repeat::Always);
            match self.client.retry.pause(failures, failed.retry_after) {
                Some(pause) if again => tokio::time::sleep(pause).await,
                _ => return Err(failed.error),
            }
        }
    }

    async fn attempt(&self, request: RequestBuilder) -> Result<(StatusCode, Bytes), Failed> {
        let url = self.client.url();
        let broken = |error: reqwest::Error| Failed {
            unheard: error.is_connect(),
            error: Error::transport(url, &error, self.timeout),
            retry_after: None,
        };
        let response = request.timeout(self.timeout).send().await.map_err(broken)?;
        let (status, retry_after) = (response.status(), retry_after(&response));
        let body = response.bytes().await.map_err(broken)?;
        if status.is_success() {
            return Ok((status, body));
        }
        let unheard = status == StatusCode::TOO_MANY_REQUESTS;
        Err(Failed { error: Error::refused(url, status, &body), unheard, retry_after })
    }
}

fn read<T: DeserializeOwned>(url: &str, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|source| Error::Unreadable { url: url.to_owned(), source })
}

/// In seconds; a date is passed over, and the usual wait applies.
pub(crate) fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
