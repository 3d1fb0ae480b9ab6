//! The thread that starts every server.
//!
//! The kernel ties "end with your parent" (`PR_SET_PDEATHSIG`) to the parent *thread*, not to its process. A server
//! started by the thread of one test would end with that test, even if others share it. So one thread, which lives as
//! long as the process, starts all of them.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

struct Order {
    command: Command,
    reply: SyncSender<io::Result<Child>>,
}

/// Filled by the first use, and never emptied: the thread ends when this sender is dropped.
static LAUNCHER: Mutex<Option<SyncSender<Order>>> = Mutex::new(None);

/// Like [`Command::spawn`], from the thread that lives as long as the process.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (reply, answer) = sync_channel(1);
    let gone = || io::Error::other("the thread that starts servers has ended");
    launcher()?.send(Order { command, reply }).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn launcher() -> io::Result<SyncSender<Order>> {
    // A panic elsewhere cannot leave the option half written.
    let mut launcher = LAUNCHER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = launcher.as_ref() {
        return Ok(sender.clone());
    }
    let (sender, orders) = sync_channel(0);
    thread::Builder::new().name("throwaway-postgres".to_owned()).spawn(move || launch_all(&orders))?;
    *launcher = Some(sender.clone());
    Ok(sender)
}

fn launch_all(orders: &Receiver<Order>) {
    for Order { mut command, reply } in orders {
        if let Err(unwanted) = reply.send(command.spawn()) {
            // The process that ordered it is gone, and no other would ever end it.
            if let Ok(mut child) = unwanted.0
                && let Err(error) = child.kill().and_then(|()| child.wait())
            {
                eprintln!("throwaway-postgres: cannot end a server nobody waits for: {error}");
            }
        }
    }
}
