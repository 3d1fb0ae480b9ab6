//! A network of two hosts: the instance's and the database's.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::link::Condition;
use super::{Error, run, run_words};

/// The hardware address of nobody.
const NOBODY: &str = "02:77:00:00:00:00";

/// A pair of devices between the experiment's network namespace and one of the instance's own.
///
/// Frames are lost by giving them a receiver that does not exist. Neither side is told: a device that is down, or a route
/// that leads nowhere, would be an error for the sender.
#[derive(Debug)]
pub(super) struct Wire {
    /// Whose namespace it is. Ends with its standard input, that is, at the latest with the experiment.
    holder: Child,
    number: u8,
    device: String,
}

impl Wire {
    pub(super) fn new(number: u32) -> Result<Self, Error> {
        let number = u8::try_from(number).map_err(|_| Error::NoNetwork(number))?;
        let holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec cat"])
            // A Ctrl-C in the terminal is for the experiment.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::io("run `unshare`, which comes with util-linux"))?;
        let device = format!("hw{}", holder.id());
        let mut wire = Self { holder, number, device };
        wire.wait_for_holder()?;
        wire.lay()?;
        Ok(wire)
    }

    /// The host of the database.
    pub(super) fn outside(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 1)
    }

    fn inside(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.number, 2)
    }

    fn hardware(&self, host: u8) -> String {
        format!("02:77:00:00:{:02x}:{host:02x}", self.number)
    }

    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id())).arg("--").arg(program);
        command
    }

    pub(super) fn set(&self, condition: Condition) -> Result<(), Error> {
        let (to_outside, to_inside) = (self.hardware(1), self.hardware(2));
        self.direct(if condition.loses_requests() { NOBODY } else { &to_outside }, true)?;
        self.direct(if condition.loses_answers() { NOBODY } else { &to_inside }, false)?;
        let discipline = match condition {
            Condition::Throttled { kbit } => format!("tbf rate {kbit}kbit burst 16kb latency 400ms"),
            _ => "noqueue".to_owned(),
        };
        let device = &self.device;
        run_words("tc", &format!("qdisc replace dev {device}o root {discipline}"))?;
        run(self.command("tc").args(format!("qdisc replace dev {device}i root {discipline}").split(' '))).map(drop)
    }

    /// Says to which hardware address one side sends what is for the other.
    fn direct(&self, address: &str, from_inside: bool) -> Result<(), Error> {
        let device = &self.device;
        let rule = |host, end| format!("neigh replace {host} lladdr {address} dev {device}{end} nud permanent");
        if from_inside {
            self.ip_inside(&rule(self.outside(), 'i'))
        } else {
            run_words("ip", &rule(self.inside(), 'o'))
        }
    }

    fn wait_for_holder(&mut self) -> Result<(), Error> {
        let mut line = String::new();
        if let Some(output) = self.holder.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(Error::io("read from `unshare`"))?;
        }
        if line.is_empty() {
            let output = "no network namespace was made; that takes root".to_owned();
            return Err(Error::Program { command: "unshare --net".to_owned(), output });
        }
        Ok(())
    }

    fn lay(&self) -> Result<(), Error> {
        let (device, holder) = (&self.device, self.holder.id());
        let (to_outside, to_inside) = (self.hardware(1), self.hardware(2));
        let ends = format!("{device}o address {to_outside} type veth peer name {device}i address {to_inside}");
        run_words("ip", &format!("link add {ends} netns {holder}"))?;
        run_words("ip", &format!("addr add {}/24 dev {device}o", self.outside()))?;
        run_words("ip", &format!("link set {device}o up"))?;
        self.ip_inside(&format!("addr add {}/24 dev {device}i", self.inside()))?;
        self.ip_inside(&format!("link set {device}i up"))?;
        self.ip_inside("link set lo up")?;
        self.set(Condition::Whole)
    }

    fn ip_inside(&self, args: &str) -> Result<(), Error> {
        run(self.command("ip").args(args.split(' '))).map(drop)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Instances that still run would keep it.
        if let Err(error) = run_words("ip", &format!("link del {}o", self.device)) {
            tracing::debug!(error = %error, "a link ended before it was dropped");
        }
        if let Err(error) = self.holder.kill().and_then(|()| self.holder.wait()) {
            tracing::warn!(error = %error, "a network namespace stays");
        }
    }
}
