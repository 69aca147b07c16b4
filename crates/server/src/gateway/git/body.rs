//! A request's body as it comes, unpacked where it was packed, and cut off where it is too long.

use std::{io::Write, time::Duration};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    http::{HeaderMap, StatusCode, header},
};
use flate2::write::MultiGzDecoder;
use futures_util::StreamExt;

use super::access::Refused;
use crate::http::Watched;

/// A little of what is packed may unpack to a thousand times as much: so it is taken in small bites.
const BITE_BYTES: usize = 4 << 10;
/// How long nothing may come.
const STALL: Duration = Duration::from_secs(60);

pub struct Incoming {
    parts: BodyDataStream,
    unpack: Option<MultiGzDecoder<Vec<u8>>>,
    /// Taken from the network and not yet unpacked.
    packed: Bytes,
    left: usize,
    token: Watched,
}

#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("the request ended early: {0}")]
    Off(axum::Error),
    #[error("the request is not packed as it says: {0}")]
    Packed(std::io::Error),
    #[error("nothing more of the request came for {STALL:?}")]
    Stalled,
    #[error("the request is too long")]
    TooLong,
    #[error("the token was revoked or expired before the request was whole")]
    TokenEnded,
}

impl Incoming {
    /// At most `bytes_max` come out of it.
    pub fn new(headers: &HeaderMap, body: Body, bytes_max: usize, token: Watched) -> Result<Self, Refused> {
        let coding =
            headers.get(header::CONTENT_ENCODING).map(|coding| coding.to_str().unwrap_or("unreadable"));
        let unpack = match coding {
            None | Some("identity") => None,
            Some("gzip" | "x-gzip") => Some(MultiGzDecoder::new(Vec::new())),
            Some(other) => {
                let detail = format!("a request packed as {other:?} is not understood; send gzip or nothing");
                return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
            }
        };
        Ok(Self { parts: body.into_data_stream(), unpack, packed: Bytes::new(), left: bytes_max, token })
    }

    pub async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        let part = match &mut self.unpack {
            None => self.arriving().await?,
            Some(_) => self.unpacked().await?,
        };
        let length = part.as_ref().map_or(0, Bytes::len);
        self.left = self.left.checked_sub(length).ok_or(Broken::TooLong)?;
        Ok(part)
    }

    async fn arriving(&mut self) -> Result<Option<Bytes>, Broken> {
        tokio::select! {
            biased;
            () = self.token.ended() => Err(Broken::TokenEnded),
            part = tokio::time::timeout(STALL, self.parts.next()) => {
                part.map_err(|_| Broken::Stalled)?.transpose().map_err(Broken::Off)
            }
        }
    }

    async fn unpacked(&mut self) -> Result<Option<Bytes>, Broken> {
        loop {
            if self.packed.is_empty() {
                match self.arriving().await? {
                    Some(part) => self.packed = part,
                    None => return self.last_unpacked(),
                }
            }
            let Some(unpack) = &mut self.unpack else { return Ok(None) };
            let bite = self.packed.split_to(self.packed.len().min(BITE_BYTES));
            unpack.write_all(&bite).map_err(Broken::Packed)?;
            let out = std::mem::take(unpack.get_mut());
            if !out.is_empty() {
                return Ok(Some(out.into()));
            }
        }
    }

    fn last_unpacked(&mut self) -> Result<Option<Bytes>, Broken> {
        let Some(unpack) = self.unpack.take() else { return Ok(None) };
        let out = unpack.finish().map_err(Broken::Packed)?;
        Ok(Some(out).filter(|out| !out.is_empty()).map(Bytes::from))
    }

    /// Hears the client out, so that it is there to hear the answer. Not for ever.
    pub async fn drain(&mut self) {
        self.unpack = None;
        while let Ok(Some(_)) = self.next().await {}
    }
}
