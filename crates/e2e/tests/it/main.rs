//! A real server and the real worker, each as it is shipped, over HTTP.

#![allow(clippy::unwrap_used)]

mod disk;
mod house;
mod repo;
mod worker;

mod interrupt;
mod leave;
mod lost;
mod rescue;
mod run;
mod statically;
