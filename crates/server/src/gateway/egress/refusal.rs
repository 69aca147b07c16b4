//! Why a request is not served, told to whoever made it: a status, a stable code and a text that names the host, the
//! rule and the next step.

use std::{net::IpAddr, time::Duration};

use omoi_protocol::EgressDecision;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::request::METHODS;
use crate::domain::egress::{Class, Denied, HostError, Target};

/// How long and how much a refused sender is heard out: one that is cut off while it sends does not hear why.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    // What cannot be read.
    #[error("the head of the request has more than {0} bytes, which egress.head_bytes_max allows")]
    HeadTooLarge(usize),
    #[error("the head of the request did not arrive within {0:?}, which egress.head_timeout allows")]
    HeadTooSlow(Duration),
    #[error("the request cannot be read: {0}")]
    Malformed(&'static str),
    #[error("{0:?} is not a request to a proxy; send CONNECT host:port, or a method with http://host/path")]
    NotAProxy(String),
    #[error(
        "the length of the body is ambiguous: {0}; send either Content-Length or Transfer-Encoding, once"
    )]
    AmbiguousLength(&'static str),
    #[error(
        "the proxy does not forward {0}, because the host would echo all request headers; use one of {methods}, or \
         CONNECT",
        methods = METHODS.join(", ")
    )]
    MethodNotAllowed(String),
    #[error("the method {0} is unknown; use one of {methods}, or CONNECT", methods = METHODS.join(", "))]
    MethodUnknown(String),
    #[error("the proxy cannot read the request body: {0}; the host {1} did not cause this")]
    BadBody(String, Target),
    #[error(
        "the body of the request stopped before its end, and nothing more came for {0:?}, which egress.idle_timeout allows"
    )]
    BodyTooSlow(Duration),
    #[error("the Host header {header:?} is not the host of the request, {target}; send the same in both")]
    HostMismatch { header: String, target: Target },

    // What is not allowed.
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("{}", denied(.target, *.why))]
    Denied { target: Target, why: Denied },
    #[error(
        "{target} is at {address}, a {class} address, and such addresses are refused whatever a list says; \
         an administrator can open a range with egress.allow_private"
    )]
    Address { target: Target, address: IpAddr, class: Class },
    #[error("{target} is the control plane itself; use the address that the sandbox was given for it")]
    ControlPlane { target: Target },
    #[error("{0} asks for an upgrade, which is not passed on over plain HTTP; use CONNECT")]
    Upgrade(Target),
    #[error("{0} has passed this proxy before; it leads in a circle")]
    Loop(Target),
    #[error(
        "the connection to {target} names {name:?} in its TLS handshake, which is not allowed; add it to the project's egress_allow"
    )]
    TlsName { target: Target, name: String },
    #[error("the connection to {0} begins like TLS and cannot be read, so the host it names is not known")]
    TlsUnreadable(Target),
    #[error("the project's settings cannot be used: {0}; correct them")]
    Policy(String),

    // What did not work.
    #[error("the project's settings cannot be read at the moment; try again")]
    PolicyUnavailable,
    #[error("the sandbox has {0} connections open, as many as egress.connections_max allows; close some")]
    TooMany(usize),
    #[error("{host} has no address: {cause}")]
    NotResolved { host: String, cause: String },
    #[error("{target} does not accept a connection at {address}: {cause}")]
    NotConnected { target: Target, address: IpAddr, cause: String },
    #[error("{target} was not reached within {limit:?}, which egress.connect_timeout allows")]
    ConnectTooSlow { target: Target, limit: Duration },
    #[error("{target} gave no answer that can be passed on: {cause}")]
    BadAnswer { target: Target, cause: String },
    #[error("nothing was carried to or from {target} for {limit:?}, which egress.idle_timeout allows")]
    Idle { target: Target, limit: Duration },
    #[error("the proxy of this sandbox is stopping")]
    Stopping,
}

fn denied(target: &Target, why: Denied) -> String {
    let Target { host, port } = target;
    match why {
        Denied::NoNetwork => format!(
            "{target} is refused because the project has no network; set settings.network to \"allow_list\" and add \
             {host} to the project's egress_allow"
        ),
        Denied::NotListed => {
            format!("{host} is not on the project's list; add it to the project's egress_allow")
        }
        Denied::Port => {
            format!(
                "port {port} of {host} is not allowed; add \"{host}:{port}\" to the project's egress_allow"
            )
        }
        Denied::OpenNotAllowed => format!(
            "{target} is refused because the project asks for an open network and the administrator allows none \
             (egress.open_allowed); add {host} to the project's egress_allow"
        ),
    }
}

impl Refusal {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::HeadTooLarge(_) => "head_too_large",
            Self::HeadTooSlow(_) => "head_too_slow",
            Self::Malformed(_) => "malformed",
            Self::NotAProxy(_) => "not_a_proxy",
            Self::AmbiguousLength(_) => "ambiguous_length",
            Self::MethodNotAllowed(_) => "method_not_allowed",
            Self::MethodUnknown(_) => "method_unknown",
            Self::BadBody(..) => "bad_body",
            Self::BodyTooSlow(_) => "body_too_slow",
            Self::HostMismatch { .. } => "host_mismatch",
            Self::Host(_) => "bad_host",
            Self::Denied { why: Denied::NoNetwork, .. } => "no_network",
            Self::Denied { why: Denied::NotListed, .. } => "not_listed",
            Self::Denied { why: Denied::Port, .. } => "port_not_allowed",
            Self::Denied { why: Denied::OpenNotAllowed, .. } => "open_not_allowed",
            Self::Address { .. } => "address_refused",
            Self::ControlPlane { .. } => "control_plane",
            Self::Upgrade(_) => "upgrade_refused",
            Self::Loop(_) => "loop",
            Self::TlsName { .. } => "tls_name_refused",
            Self::TlsUnreadable(_) => "tls_unreadable",
            Self::Policy(_) => "settings_invalid",
            Self::PolicyUnavailable => "settings_unavailable",
            Self::TooMany(_) => "too_many_connections",
            Self::NotResolved { .. } => "not_resolved",
            Self::NotConnected { .. } => "not_connected",
            Self::ConnectTooSlow { .. } => "connect_too_slow",
            Self::BadAnswer { .. } => "bad_answer",
            Self::Idle { .. } => "idle_timeout",
            Self::Stopping => "stopping",
        }
    }

    pub const fn status(&self) -> (u16, &'static str) {
        match self {
            Self::HeadTooLarge(_) => (431, "Request Header Fields Too Large"),
            Self::HeadTooSlow(_) | Self::BodyTooSlow(_) => (408, "Request Timeout"),
            Self::MethodNotAllowed(_) => (405, "Method Not Allowed"),
            Self::MethodUnknown(_) => (501, "Not Implemented"),
            Self::Malformed(_)
            | Self::NotAProxy(_)
            | Self::AmbiguousLength(_)
            | Self::BadBody(..)
            | Self::HostMismatch { .. } => (400, "Bad Request"),
            Self::Loop(_) => (508, "Loop Detected"),
            Self::Host(_)
            | Self::Denied { .. }
            | Self::Address { .. }
            | Self::ControlPlane { .. }
            | Self::Upgrade(_)
            | Self::TlsName { .. }
            | Self::TlsUnreadable(_)
            | Self::Policy(_) => (403, "Forbidden"),
            Self::PolicyUnavailable | Self::TooMany(_) | Self::Stopping => (503, "Service Unavailable"),
            Self::NotResolved { .. } | Self::NotConnected { .. } | Self::BadAnswer { .. } => {
                (502, "Bad Gateway")
            }
            Self::ConnectTooSlow { .. } | Self::Idle { .. } => (504, "Gateway Timeout"),
        }
    }

    pub const fn decision(&self) -> EgressDecision {
        match self.status().0 {
            502.. if !matches!(self, Self::Loop(_)) => EgressDecision::Failed,
            _ => EgressDecision::Refused,
        }
    }

    /// A host was refused, as opposed to a request that names none.
    pub const fn is_denial(&self) -> bool {
        self.status().0 == 403
    }

    /// The address that was refused or did not answer.
    pub const fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address { address, .. } | Self::NotConnected { address, .. } => Some(*address),
            _ => None,
        }
    }

    pub fn body(&self) -> String {
        let verb = match self.decision() {
            EgressDecision::Failed => "could not pass this request on",
            _ => "refused this request",
        };
        format!("omoi {verb}: {self}\n")
    }

    /// Answers and closes.
    pub async fn send(&self, client: &mut TcpStream, method: &str) {
        let body = if method == "HEAD" { String::new() } else { self.body() };
        let (status, words) = self.status();
        let allow = match self {
            Self::MethodNotAllowed(_) => format!("Allow: {}\r\n", METHODS.join(", ")),
            _ => String::new(),
        };
        let answer = format!(
            "HTTP/1.1 {status} {words}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             {allow}Connection: close\r\nX-Omoi-Refused: {}\r\n\r\n{body}",
            body.len(),
            self.code()
        );
        let sent = async {
            client.write_all(answer.as_bytes()).await?;
            client.shutdown().await?;
            tokio::io::copy(&mut client.take(LINGER_BYTES), &mut tokio::io::sink()).await
        };
        // Whoever has gone does not hear it.
        let _ = tokio::time::timeout(LINGER, sent).await;
    }
}
