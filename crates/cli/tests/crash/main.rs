//! Promises that only whole processes can break: the real program, killed under load, and many of it on one database.
#![allow(clippy::unwrap_used)]

mod place;

mod reader;
mod writer;

mod kill;
mod sixteen;
