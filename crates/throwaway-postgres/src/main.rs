//! `throwaway-postgres [--durable] COMMAND ARGS…`: runs a command with its own PostgreSQL server.
//!
//! The command finds the server's address in `HIGHWATER_TEST_POSTGRES_URL`. The server and its folder are removed when
//! the command ends, and the exit code is that of the command. SIGINT, SIGTERM and SIGHUP are passed on to it, and exit
//! with 128 + signal once it has ended; a Ctrl-C reaches the command from the terminal as well, hence twice.
//!
//! `throwaway-postgres --bindir` prints the folder of the server's programs, or what to install; `--bindir MAJOR` that of a
//! server of this version.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use throwaway_postgres::{ThrowawayPostgres, bin_dir, bin_dir_of, send_signal};

const USAGE: &str = "usage: throwaway-postgres [--durable] COMMAND ARGS…  |  throwaway-postgres --bindir [MAJOR]";

// As `env` and `timeout` have them: its own failure, a command that cannot run, one that does not exist.
const FAILED: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

fn main() -> ExitCode {
    run(std::env::args_os().skip(1).collect()).unwrap_or_else(|error| {
        eprintln!("throwaway-postgres: {error}");
        ExitCode::from(FAILED)
    })
}

fn run(mut args: Vec<OsString>) -> Result<ExitCode, Box<dyn Error>> {
    let durable = args.first().is_some_and(|arg| arg == "--durable");
    if durable {
        args.remove(0);
    }
    match args.split_first() {
        Some((flag, [])) if flag == "--bindir" && !durable => {
            println!("{}", bin_dir()?.display());
            Ok(ExitCode::SUCCESS)
        }
        Some((flag, [major])) if flag == "--bindir" && !durable => {
            let major = major.to_str().and_then(|major| major.parse().ok()).ok_or(USAGE)?;
            println!("{}", bin_dir_of(major)?.display());
            Ok(ExitCode::SUCCESS)
        }
        Some((program, args)) if !program.to_string_lossy().starts_with('-') => {
            let mut command = Command::new(program);
            command.args(args);
            with_server(durable, command)
        }
        _ => Err(USAGE.into()),
    }
}

fn with_server(durable: bool, mut command: Command) -> Result<ExitCode, Box<dyn Error>> {
    // First of all, so that no signal finds a server that nobody would remove.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD])?;
    let builder = ThrowawayPostgres::builder();
    let postgres = if durable { builder.durable() } else { builder }.start()?;
    if let Some(signal) = signals.pending().find(|signal| *signal != SIGCHLD) {
        return Ok(exit_code_of_signal(signal));
    }
    command.env("HIGHWATER_TEST_POSTGRES_URL", postgres.url());
    let code = match command.spawn() {
        Ok(child) => wait_passing_signals_on(child, &mut signals)?,
        Err(error) => {
            eprintln!("throwaway-postgres: cannot run {}: {error}", command.get_program().display());
            let missing = error.kind() == io::ErrorKind::NotFound;
            ExitCode::from(if missing { NOT_FOUND } else { CANNOT_RUN })
        }
    };
    Ok(code)
}

fn wait_passing_signals_on(mut child: Child, signals: &mut Signals) -> io::Result<ExitCode> {
    let mut received = None;
    for signal in signals.forever() {
        if signal != SIGCHLD {
            received = Some(signal);
        }
        // Any signal is an occasion to look; SIGCHLD is the one that the child's end is sure to raise.
        if let Some(status) = child.try_wait()? {
            return Ok(received.map_or_else(|| exit_code(status), exit_code_of_signal));
        }
        let name = match signal {
            SIGINT => "INT",
            SIGTERM => "TERM",
            SIGHUP => "HUP",
            _ => continue,
        };
        // Not waited for yet, hence still this child's id. Whatever happens, the server stays until the command ends.
        if let Err(error) = send_signal(child.id(), name) {
            eprintln!("throwaway-postgres: cannot pass SIG{name} on: {error}");
        }
    }
    unreachable!("signals are listened to until the process ends")
}

/// A command that was killed ends with 128 + signal, as in the shell.
fn exit_code(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(FAILED)),
        (None, Some(signal)) => exit_code_of_signal(signal),
        (None, None) => ExitCode::from(FAILED),
    }
}

fn exit_code_of_signal(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(FAILED))
}
