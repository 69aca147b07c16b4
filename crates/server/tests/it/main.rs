//! The server over its real boundary: HTTP in, stored state out, on both databases.
#![allow(clippy::unwrap_used)]

mod app;

mod event;
