//! Links, and what they do to what is sent over them.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use highwater_chaos::ground::{Condition, Error, Link};

use crate::support::is_private;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long nothing has to come for nothing to be coming. Far longer than what comes takes on a whole link.
const SILENCE: Duration = Duration::from_millis(400);

/// What one end receives, line by line.
struct Listener(Receiver<String>);

impl Listener {
    fn new(source: impl std::io::Read + Send + 'static) -> Self {
        let (sender, heard) = channel();
        thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self(heard)
    }

    #[track_caller]
    fn receives(&self, line: &str) {
        assert_eq!(self.0.recv_timeout(PATIENCE).unwrap(), line);
    }

    #[track_caller]
    fn receives_nothing(&self) {
        self.0.recv_timeout(SILENCE).unwrap_err();
    }
}

/// A connection over a link, seen from both ends.
struct Call {
    instance: Child,
    writer: ChildStdin,
    listener: Listener,
    server: TcpStream,
    server_listener: Listener,
}

impl Call {
    fn over(link: &Link, listener: &TcpListener) -> Self {
        let address = link.hosts().replace(':', "/");
        let script = format!("exec 3<>/dev/tcp/{address}; cat <&3 & exec cat >&3");
        let mut command = link.command("bash");
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut instance = command.spawn().unwrap();
        let server = listener.accept().unwrap().0;
        // As PostgreSQL does.
        server.set_nodelay(true).unwrap();
        let (writer, listener) = (instance.stdin.take().unwrap(), Listener::new(instance.stdout.take().unwrap()));
        let server_listener = Listener::new(server.try_clone().unwrap());
        Self { instance, writer, listener, server, server_listener }
    }

    fn ask(&mut self, line: &str) {
        writeln!(self.writer, "{line}").unwrap();
    }

    fn answer(&mut self, line: &str) {
        writeln!(self.server, "{line}").unwrap();
    }

    #[track_caller]
    fn works(&mut self) {
        self.ask("are you there");
        self.server_listener.receives("are you there");
        self.answer("yes");
        self.listener.receives("yes");
    }

    fn end(mut self) {
        drop(self.writer);
        self.server.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(self.instance.wait().unwrap().success());
    }
}

/// Takes a link through every condition but delay.
fn loses_what_it_should(link: &Link, listener: &TcpListener) {
    let mut call = Call::over(link, listener);
    call.works();

    link.set(Condition::Cut).unwrap();
    call.ask("lost");
    call.answer("lost too");
    call.server_listener.receives_nothing();
    call.listener.receives_nothing();
    link.set(Condition::Whole).unwrap();
    call.server_listener.receives("lost");
    call.listener.receives("lost too");

    // Confirmations are lost with answers and with requests. TCP continues for a while without, but not where it has just
    // met with losses: hence a word in between.
    call.works();
    link.set(Condition::LosesAnswers).unwrap();
    call.ask("heard");
    call.answer("not heard");
    call.server_listener.receives("heard");
    call.listener.receives_nothing();
    link.set(Condition::Whole).unwrap();
    call.listener.receives("not heard");

    call.works();
    link.set(Condition::LosesRequests).unwrap();
    call.ask("not heard either");
    call.answer("heard as well");
    call.listener.receives("heard as well");
    call.server_listener.receives_nothing();
    link.set(Condition::Whole).unwrap();
    call.server_listener.receives("not heard either");

    link.set(Condition::Throttled { kbit: 400 }).unwrap();
    let long = "long".repeat(25_000);
    let since = Instant::now();
    call.answer(&long);
    call.listener.receives(&long);
    assert!(since.elapsed() > Duration::from_secs(1), "800 kbit: {:?}", since.elapsed());
    link.set(Condition::Whole).unwrap();
    call.works();
    call.end();
}

fn delays(link: &Link, listener: &TcpListener) {
    let mut call = Call::over(link, listener);
    call.works();
    link.set(Condition::Delayed { millis: 300 }).unwrap();
    let since = Instant::now();
    call.works();
    assert!(since.elapsed() >= Duration::from_millis(600), "{:?}", since.elapsed());
    link.set(Condition::Whole).unwrap();
    call.works();
    call.end();
}

#[test]
fn a_network_loses_what_it_should_and_tells_nobody() {
    match is_private("link::a_network_loses_what_it_should_and_tells_nobody") {
        None => return,
        // Networks are not permitted here; the test below is about what is.
        Some(false) => return a_proxy_loses_what_it_should_and_tells_nobody(),
        Some(true) => {}
    }
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let loopback = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
    assert!(loopback.success());
    let ports = [listener.local_addr().unwrap().port()];
    let link = Link::new(3, &ports, true, false).unwrap();
    assert_eq!(link.hosts(), format!("10.77.3.1:{}", ports[0]));
    loses_what_it_should(&link, &listener);
    assert!(matches!(link.set(Condition::Delayed { millis: 1 }), Err(Error::NotProxied)));
    // Another one beside it, which ends before it.
    let proxied = Link::new(4, &ports, true, true).unwrap();
    loses_what_it_should(&proxied, &listener);
    delays(&proxied, &listener);
    drop(proxied);
    Call::over(&link, &listener).works();
}

#[test]
fn a_proxy_loses_what_it_should_and_tells_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = Link::new(1, &[listener.local_addr().unwrap().port()], false, true).unwrap();
    loses_what_it_should(&link, &listener);
    delays(&link, &listener);
}
