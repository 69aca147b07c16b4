//! A real server and the real worker, each as it is shipped, over HTTP.

#![allow(clippy::unwrap_used)]

mod disk;
mod hostile_tree;
mod house;
mod left;
mod repo;
mod worker;

mod checklist;
mod door;
mod full;
mod gateway;
mod hostile;
mod interrupt;
mod leave;
mod lost;
mod memory;
mod rescue;
mod run;
mod statically;
mod unkeepable;
mod vendor;
