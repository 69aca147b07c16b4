//! HTTP: the routes on one page. Handlers extract, call one thing of the store and answer; nothing here can run work.

pub(crate) mod problem;

pub(crate) mod extract;

mod check;
mod page;

mod auth;
mod figures;
mod front;
mod gate;
mod guess;
pub(crate) mod listen;
mod origin;
mod parameters;
pub(crate) mod request_id;
mod token_watch;

mod action;
mod agent;
mod artifact;
mod audit;
mod collaboration;
mod command;
mod conductor;
mod cost;
mod diagnosis;
mod egress;
mod event;
mod files;
mod graph;
mod guardian;
mod health;
mod live;
mod message;
mod monitor;
mod openapi;
mod pages;
mod policy;
mod project;
mod result;
mod route;
mod sandbox;
mod session;
mod spec;
mod task;
mod ticket;
mod token;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, middleware};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    bus::Bus,
    clock::Clock,
    config::{self, Config, ServerRole},
    directories::Directories,
    gateway,
    git::Mirrors,
    store::Store,
    usual::Usual,
};
use route::Routes;

pub(crate) use auth::{Caller, Secret, bearer};
pub use gate::Gate;
pub(crate) use problem::{ApiError, ApiResult};
pub(crate) use token_watch::Watched;

pub use openapi::openapi_json;

/// What handlers share. It holds no provider of sandboxes, so that no request can run work.
#[derive(Clone)]
pub struct Api(Arc<Shared>);

pub struct Shared {
    pub store: Store,
    pub bus: Bus,
    pub clock: Clock,
    pub limits: config::Limits,
    pub live: config::Live,
    pub long_poll_max: Duration,
    pub gate: Arc<Gate>,
    pub viewers: Arc<Semaphore>,
    pub conductor: config::Conductor,
    pub judge: config::Judge,
    /// Wakes the loop that makes and removes sandboxes.
    pub wake: Arc<Notify>,
    pub stop: CancellationToken,
    pub allowed_origins: Vec<String>,
    /// Whether browsers reach the server by https, so that its cookie must not go any other way.
    pub is_https: bool,
    /// Whether projects may ask for an open network.
    pub open_allowed: bool,
    /// Only to look into: what a repository holds.
    mirrors: Mirrors,
    /// Those that the server needs while it runs.
    directories: Arc<Directories>,
    /// The policy of projects that have none of their own.
    usual: Usual,
    own_hosts: Vec<String>,
}

impl std::ops::Deref for Api {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Shared {
    fn is_own_host(&self, name: &str) -> bool {
        front::is_numeric(name) || self.own_hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// All routes, noun by noun. Paths stand whole in each file: to nest routers would cost every request the rewriting of its
/// address.
const NOUNS: [fn() -> Routes; 27] = [
    health::sandbox_routes,
    sandbox::routes,
    command::routes,
    event::routes,
    message::routes,
    collaboration::routes,
    egress::routes,
    project::routes,
    graph::routes,
    conductor::routes,
    monitor::routes,
    ticket::routes,
    task::routes,
    spec::routes,
    agent::routes,
    result::routes,
    action::routes,
    diagnosis::routes,
    artifact::routes,
    token::routes,
    audit::routes,
    session::routes,
    cost::routes,
    guardian::routes,
    policy::routes,
    live::routes,
    openapi::routes,
];

/// What requests are answered from.
pub struct Parts {
    pub address: SocketAddr,
    pub clock: Clock,
    pub store: Store,
    pub gate: Arc<Gate>,
    pub bus: Bus,
    pub wake: Arc<Notify>,
    pub mirrors: Mirrors,
    pub directories: Arc<Directories>,
    pub calls: gateway::model::Calls,
    pub usual: Usual,
    pub stop: CancellationToken,
}

pub fn router(config: Config, parts: Parts) -> Router {
    let Parts { address, clock, store, gate, bus, wake, mirrors, directories, calls, usual, stop } = parts;
    let serves_api = config.server.role != ServerRole::Orchestrator;
    let own_hosts = own_hosts(&config, address);
    let api = Api(Arc::new(Shared {
        gate,
        viewers: Arc::new(Semaphore::new(config.limits.viewers_max)),
        long_poll_max: config.message.long_poll_max,
        open_allowed: config.egress.open_allowed,
        is_https: config.server.public_url.as_ref().is_some_and(|url| url.starts_with("https://")),
        limits: config.limits,
        conductor: config.conductor,
        judge: config.judge,
        live: config.live,
        allowed_origins: config.server.allowed_origins,
        own_hosts,
        store,
        bus,
        clock,
        wake,
        stop,
        mirrors: mirrors.clone(),
        directories,
        usual,
    }));
    let mut router = health::routes().into_router();
    if serves_api {
        router = NOUNS.iter().fold(router, |all, noun| all.merge(noun().into_router()));
        router = router.merge(gateway::model::routes(api.clone(), calls));
        router = router.merge(gateway::git_routes(api.clone(), mirrors, config.git));
    }
    router
        .fallback(pages::page)
        .layer(middleware::from_fn_with_state(api.clone(), front::front))
        .with_state(api)
}

fn own_hosts(config: &Config, address: SocketAddr) -> Vec<String> {
    let mut hosts = vec!["localhost".to_owned(), config.server.listen.host.clone(), address.ip().to_string()];
    hosts.extend(config.server.allowed_hosts.iter().cloned());
    let public = config.server.public_url.as_ref().and_then(|url| url.parse::<axum::http::Uri>().ok());
    hosts.extend(public.and_then(|uri| uri.host().map(str::to_owned)));
    hosts
}
