//! One sandbox's door: each connection through it is one request, from its head to its line in the log.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use omoi_protocol::{EgressDecision, EgressId, EgressTls, egress::EgressRequest};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{
    SandboxContext, Shared, forward,
    log::{Log, Note},
    meter::{Meter, millis},
    refusal::Refusal,
    request::{self, Kind, Named, Refused, Request},
    rules::Rules,
    tunnel,
};
use crate::{domain::egress::Policy, store::Denial};

const REASON_CHARS_MAX: usize = 500;

pub struct Door {
    sandbox: SandboxContext,
    shared: Arc<Shared>,
    rules: Rules,
    log: Log,
    /// Ends whatever is still under way.
    cut: CancellationToken,
}

impl Door {
    pub fn new(sandbox: SandboxContext, shared: Arc<Shared>, log: Log, cut: CancellationToken) -> Self {
        Self { rules: Rules::of(sandbox.project_id.clone()), sandbox, shared, log, cut }
    }

    pub fn connections_max(&self) -> usize {
        self.shared.config.connections_max
    }

    /// Serves one connection until it ends or is cut.
    pub async fn serve(&self, mut client: TcpStream) {
        no_delay(&client);
        let meter = Meter::start();
        let request = match self.read(&mut client).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(refused) => return self.refuse(client, &refused.named, refused.refusal, &meter).await,
        };
        let opened = tokio::select! {
            opened = self.open(&request) => opened,
            () = self.cut.cancelled() => Err(Refusal::Stopping),
        };
        match opened {
            Ok((policy, upstream, address)) => {
                let mut line = self.line(&named(&request));
                line.address = Some(address.to_string());
                self.note(Note::Began(EgressRequest { duration_ms: None, ..line.clone() })).await;
                let ended = self.carry(client, &request, upstream, &policy, &meter).await;
                self.finish(line, ended, &request, &meter).await;
            }
            Err(refusal) => self.refuse(client, &named(&request), refusal, &meter).await,
        }
    }

    /// Says that there are too many already.
    pub async fn turn_away(&self, mut client: TcpStream, connections_max: usize) {
        let meter = Meter::start();
        let named = match self.read(&mut client).await {
            Ok(Some(request)) => named(&request),
            Ok(None) => return,
            Err(refused) => refused.named,
        };
        self.refuse(client, &named, Refusal::TooMany(connections_max), &meter).await;
    }

    async fn read(&self, client: &mut TcpStream) -> Result<Option<Request>, Box<Refused>> {
        let config = &self.shared.config;
        tokio::select! {
            read = request::read(client, config.head_bytes_max, config.head_timeout) => read,
            () = self.cut.cancelled() => Ok(None),
        }
    }

    /// Judges the request and connects to where it wants to go.
    async fn open(&self, request: &Request) -> Result<(Arc<Policy>, TcpStream, IpAddr), Refusal> {
        let Shared { config, store, dialler, .. } = &*self.shared;
        let target = &request.target;
        let policy = self.rules.policy(store, config).await?;
        dialler.check_literal(target)?;
        policy.check(target).map_err(|why| Refusal::Denied { target: target.clone(), why })?;
        let (upstream, address) = dialler.dial(target).await?;
        no_delay(&upstream);
        Ok((policy, upstream, address))
    }

    async fn carry(
        &self,
        client: TcpStream,
        request: &Request,
        upstream: TcpStream,
        policy: &Policy,
        meter: &Arc<Meter>,
    ) -> Ended {
        let config = &self.shared.config;
        let (target, limit) = (&request.target, config.idle_timeout);
        let (tls, failed) = (OnceLock::new(), OnceLock::new());
        meter.touch();
        let carrying = async {
            match request.kind {
                Kind::Connect => {
                    let early = &request.bytes[request.head_length..];
                    match tunnel::carry(client, early, upstream, target, policy, meter, &tls).await {
                        Ok(()) => None,
                        Err(tunnel::End::Refused(refusal)) => Some(Why::Refused(refusal)),
                        Err(tunnel::End::Broken(error)) => Some(Why::Broken(error.to_string())),
                    }
                }
                Kind::Http => {
                    let carried = forward::carry(client, request, upstream, config, meter, &failed).await;
                    carried.err().map(|error| Why::Broken(error.to_string()))
                }
            }
        };
        let why = tokio::select! {
            biased;
            why = carrying => why,
            () = meter.idle(limit) => Some(Why::Cut(Refusal::Idle { target: target.clone(), limit })),
            () = self.cut.cancelled() => Some(Why::Cut(Refusal::Stopping)),
        };
        let why = failed.into_inner().map(Why::Refused).or(why);
        Ended { why, tls: tls.into_inner() }
    }

    async fn finish(&self, mut line: EgressRequest, ended: Ended, request: &Request, meter: &Meter) {
        let mut denial = None;
        line.tls = ended.tls;
        match &ended.why {
            Some(Why::Refused(refusal)) => {
                line.decision = refusal.decision();
                denial = denial_of(&named(request), refusal);
                (line.code, line.reason) = (Some(refusal.code().to_owned()), Some(brief(refusal)));
            }
            Some(Why::Cut(refusal)) => {
                (line.code, line.reason) = (Some(refusal.code().to_owned()), Some(brief(refusal)));
            }
            Some(Why::Broken(cause)) => {
                (line.code, line.reason) = (Some("broken_off".to_owned()), Some(brief(cause)));
            }
            None => {}
        }
        self.ended(line, denial, meter).await;
    }

    async fn refuse(&self, mut client: TcpStream, named: &Named, refusal: Refusal, meter: &Meter) {
        let mut line = self.line(named);
        line.decision = refusal.decision();
        line.address = refusal.address().map(|address| address.to_string());
        (line.code, line.reason) = (Some(refusal.code().to_owned()), Some(brief(&refusal)));
        self.ended(line, denial_of(named, &refusal), meter).await;
        refusal.send(&mut client, &named.method).await;
    }

    fn line(&self, named: &Named) -> EgressRequest {
        let now = self.shared.clock.now();
        EgressRequest {
            id: EgressId::generate(),
            sandbox_id: self.sandbox.sandbox_id.clone(),
            at: now,
            last_at: now,
            requests: 1,
            method: named.method.clone(),
            host: named.host.clone(),
            port: i64::from(named.port),
            address: None,
            decision: EgressDecision::Allowed,
            code: None,
            reason: None,
            tls: None,
            bytes_up: 0,
            bytes_down: 0,
            duration_ms: None,
        }
    }

    async fn ended(&self, mut line: EgressRequest, denial: Option<Denial>, meter: &Meter) {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        line.last_at = self.shared.clock.now();
        line.bytes_up = number(meter.up());
        line.bytes_down = number(meter.down());
        line.duration_ms = Some(number(millis(meter.elapsed())));
        self.note(Note::Ended(line, denial)).await;
    }

    async fn note(&self, note: Note) {
        tokio::select! {
            biased;
            // The log outlives every connection.
            _ = self.log.send(Box::new(note)) => {}
            () = self.cut.cancelled() => {
                tracing::error!(sandbox.id = %self.sandbox.sandbox_id, "a line of the egress log is lost: it is full");
            }
        }
    }
}

/// How a connection that was opened ended.
struct Ended {
    why: Option<Why>,
    tls: Option<EgressTls>,
}

enum Why {
    /// It turned out that it may not go on, or there was no answer.
    Refused(Refusal),
    /// By us.
    Cut(Refusal),
    /// By one of its sides.
    Broken(String),
}

fn named(request: &Request) -> Named {
    let target = &request.target;
    Named { method: request.method.clone(), host: target.host.to_string(), port: target.port }
}

fn denial_of(named: &Named, refusal: &Refusal) -> Option<Denial> {
    let (host, port) = match refusal {
        Refusal::TlsName { name, target } => (brief(name), target.port),
        _ => (named.host.clone(), named.port),
    };
    refusal.is_denial().then(|| Denial { host, port, code: refusal.code(), reason: brief(refusal) })
}

/// What a sandbox sends may be long, and is repeated in reasons.
fn brief(text: &impl ToString) -> String {
    text.to_string().chars().take(REASON_CHARS_MAX).collect()
}

/// Small packets must not wait for more to send.
fn no_delay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
}
