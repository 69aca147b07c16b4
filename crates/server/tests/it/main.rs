//! The server over its real boundary: HTTP in, stored state out, on both databases.
#![allow(clippy::unwrap_used)]

mod app;
mod repository;
mod stand_in;
mod viewer;
mod wire;
mod work;

mod agent;
mod artifact;
mod audit;
mod bad_input;
mod batch;
mod claim;
mod database_away;
mod dependency;
mod dispatch;
mod door;
mod egress;
mod ending;
mod event;
mod git_gateway;
mod graph;
mod guardian;
mod lease;
mod live;
mod message;
mod mirror;
mod model_budget;
mod model_gateway;
mod model_trouble;
mod project;
mod proof;
mod prune;
mod restart;
mod result;
mod scripted;
mod seeds;
mod session;
mod spec;
mod supervise;
mod task;
mod ticket;
mod token;
mod trajectory;
mod transcript;
