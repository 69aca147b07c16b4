//! A request that is ready to go, to a vendor or to a scenario, and the response to it, which is read alike from either.

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;

use super::{
    call::Broken,
    scripted::{Part, Reply},
};

pub enum Request {
    Vendor(reqwest::RequestBuilder),
    Scripted(Box<Part>),
    /// Answered already.
    Answered(Reply),
}

pub enum Response {
    Vendor(reqwest::Response),
    Scripted(Reply),
}

impl Request {
    pub async fn send(self) -> Result<Response, reqwest::Error> {
        match self {
            Self::Vendor(request) => request.send().await.map(Response::Vendor),
            Self::Scripted(part) => Ok(Response::Scripted(part.play().await)),
            Self::Answered(reply) => Ok(Response::Scripted(reply)),
        }
    }
}

impl Response {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Vendor(response) => response.status(),
            Self::Scripted(reply) => reply.status,
        }
    }

    pub fn headers(&self) -> &HeaderMap {
        match self {
            Self::Vendor(response) => response.headers(),
            Self::Scripted(reply) => &reply.headers,
        }
    }

    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        match self {
            Self::Vendor(response) => response.chunk().await.map_err(|_| Broken),
            Self::Scripted(reply) => reply.chunk().await,
        }
    }
}
