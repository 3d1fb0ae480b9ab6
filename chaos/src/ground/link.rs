//! The way between one instance and the database.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::Error;
use super::proxy::Proxy;
use super::wire::Wire;

/// What a link does to what is sent over it. Nobody is ever told: what does not come through is missing, no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// Nothing.
    Whole,
    /// Nothing comes through.
    Cut,
    /// What the database sends does not come through.
    LosesAnswers,
    /// What the instance sends does not come through.
    LosesRequests,
    /// Everything takes longer. Only on proxied links.
    Delayed {
        /// By how much, in each direction.
        millis: u64,
    },
    /// There is little room.
    Throttled {
        /// For so many thousand bits a second, in each direction.
        kbit: u64,
    },
}

impl Condition {
    pub(super) fn loses_requests(self) -> bool {
        matches!(self, Self::Cut | Self::LosesRequests)
    }

    pub(super) fn loses_answers(self) -> bool {
        matches!(self, Self::Cut | Self::LosesAnswers)
    }
}

/// The way between one instance, in all its lives, and the database. Gone after drop.
///
/// Where it is private it is a network of two hosts, with everything that TCP does on one; there, a proxy stands between
/// only if that is asked for. Elsewhere the proxy is all there is.
#[derive(Debug)]
pub struct Link {
    wire: Option<Wire>,
    proxy: Option<Proxy>,
    host: Ipv4Addr,
    ports: Vec<u16>,
}

impl Link {
    /// A whole link to the servers on these ports. Every link of an experiment has another number.
    pub fn new(number: u32, ports: &[u16], private: bool, proxied: bool) -> Result<Self, Error> {
        let wire = private.then(|| Wire::new(number)).transpose()?;
        let host = wire.as_ref().map_or(Ipv4Addr::LOCALHOST, Wire::outside);
        let proxy = (proxied || !private).then(|| Proxy::new(host, ports)).transpose()?;
        let ports = proxy.as_ref().map_or(ports, Proxy::ports).to_vec();
        Ok(Self { wire, proxy, host, ports })
    }

    /// A program that runs at the instance's end. It becomes the process that is started.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.wire.as_ref().map_or_else(|| Command::new(&program), |wire| wire.command(&program))
    }

    /// Where the servers are, seen from the instance: what stands between `@` and `/` in a URL.
    #[must_use]
    pub fn hosts(&self) -> String {
        let hosts: Vec<String> = self.ports.iter().map(|port| format!("{}:{port}", self.host)).collect();
        hosts.join(",")
    }

    /// From now on the link is in this condition, and in no other.
    pub fn set(&self, condition: Condition) -> Result<(), Error> {
        // A wire can do everything else, and does it better.
        let (on_wire, in_proxy) = match condition {
            Condition::Delayed { .. } => (Condition::Whole, condition),
            _ if self.wire.is_some() => (condition, Condition::Whole),
            _ => (Condition::Whole, condition),
        };
        match &self.proxy {
            Some(proxy) => proxy.set(in_proxy),
            None if in_proxy != Condition::Whole => return Err(Error::NotProxied),
            None => {}
        }
        self.wire.as_ref().map_or(Ok(()), |wire| wire.set(on_wire))
    }
}
