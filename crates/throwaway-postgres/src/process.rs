//! Processes: starting them so that they end with us, signalling them, waiting for their end.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::account::Account;
use crate::poll::poll;
use crate::{Error, launcher};

/// Runs the rest of its arguments, unless our process ended before `setpriv` could ask to be told of that.
const EXEC_IF_OWNER_LIVES: &str = r#"test "$PPID" = "$1" && shift && exec "$@""#;

/// Sends a signal, by its name without "SIG", to one process.
///
/// Public for the binary of this crate and for tests that kill other processes. The caller makes sure that `pid` still
/// is the process it means: a child that has not been waited for, for instance.
pub fn send_signal(pid: u32, signal: &str) -> io::Result<()> {
    // std signals with SIGKILL only, and a program `kill` is not on every machine. The shell has it built in.
    let output = Command::new("sh")
        .args(["-c", r#"kill -s "$1" "$2""#, "sh", signal, &pid.to_string()])
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let refusal = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("kill -s {signal} {pid}: {}", refusal.trim())))
}

/// Whether a process with this id exists and has not ended; a zombie has.
///
/// An error other than "no such process" counts as running, since callers delete things when it is not.
pub fn is_running(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The program's name, in parentheses, may itself contain anything; the state is the letter after it.
        Ok(stat) => {
            !matches!(stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next()), Some('Z' | 'X'))
        }
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// The process that started this one; `None` if there is no such process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A child process with the rights of `account`, which is sent SIGQUIT when this process ends.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts `program` in `folder`, with its output appended to the file `log`.
    pub(crate) fn spawn(
        account: Option<Account>,
        folder: &Path,
        log: &Path,
        program: &Path,
        args: &[&str],
    ) -> Result<Self, Error> {
        let output = fs::OpenOptions::new().create(true).append(true).open(log);
        let output = output.map_err(Error::io(format!("open {}", log.display())))?;
        let errors = output.try_clone().map_err(Error::io("duplicate a file handle"))?;

        let mut command = Command::new("setpriv");
        if let Some(Account { uid, gid }) = account {
            command.args([format!("--reuid={uid}"), format!("--regid={gid}")]);
            command.arg("--clear-groups");
        }
        command
            .args(["--pdeathsig", "QUIT", "sh", "-c", EXEC_IF_OWNER_LIVES, "sh"])
            .arg(std::process::id().to_string())
            .arg(program)
            .args(args)
            // The account may not be allowed into the folder we happen to be in.
            .current_dir(folder)
            // A Ctrl-C in the terminal is for us, who end the server when its clients are done.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        let child = launcher::spawn(command)
            .map_err(Error::io(format!("run {} through `setpriv`, which comes with util-linux", program.display())))?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal; does nothing if the process has ended.
    pub(crate) fn signal(&mut self, signal: &str) -> Result<(), Error> {
        if self.exited()?.is_some() {
            return Ok(());
        }
        // Not waited for until `exited` says so, hence the id cannot belong to another process by now.
        let pid = self.pid();
        send_signal(pid, signal).map_err(Error::io(format!("signal process {pid}")))
    }

    pub(crate) fn exited(&mut self) -> Result<Option<ExitStatus>, Error> {
        let pid = self.pid();
        let status = match self.child.try_wait() {
            // A killed PgBouncer has two threads. With the first one gone, it looks ended to all, but only with the
            // other one gone, a moment later, does the kernel say how.
            Ok(None) if !is_running(pid) => self.child.wait().map(Some),
            status => status,
        };
        status.map_err(Error::io(format!("wait for process {pid}")))
    }

    /// Waits for the end of the process; `None` if it still runs after `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, Error> {
        poll(limit, || self.exited())
    }
}
