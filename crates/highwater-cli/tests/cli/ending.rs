//! How it ends: closed pipes, full disks, help, completions, manual pages.

use std::process::Stdio;

use crate::support::{Kind, Place, Postgres, Ran, check, on_each_backend};

on_each_backend! {
    async fn a_closed_pipe_ends_it_quietly<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        let line = format!("{{\"stream\":\"order/17\",\"type\":\"Placed\",\"data\":\"{}\"}}\n", "x".repeat(1_000));
        place.feed(&["append", "--stdin"], &line.repeat(1_000)).await.fine();
        for command in ["events", "events --json", "read order/17", "tail -n 1000", "tail -f -n 1000", "export"] {
            let program = env!("CARGO_BIN_EXE_highwater");
            let script = format!("{program} {command} | head -1 | wc -l; echo ${{PIPESTATUS[0]}}");
            let mut bash = tokio::process::Command::new("bash");
            bash.args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
            for (name, value) in place.command(&[]).as_std().get_envs() {
                value.map(|value| bash.env(name, value));
            }
            let ran = Ran::of(bash.spawn().unwrap()).await;
            assert_eq!((&*ran.out, &*ran.err), ("1\n141\n", ""), "{command}");
        }
    }
}

on_each_backend! {
    async fn a_full_disk_is_said<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        place.run(&["append", "order/17", "Placed"]).await.fine();
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(place.command(&["events"]).stdout(full).spawn().unwrap()).await;
        assert!(ran.failed(1).contains("No space left on device"));
    }
}

#[tokio::test]
async fn every_command_has_help_with_an_example() {
    let place = Postgres::place();
    let overview = place.run(&["--help"]).await.fine();
    assert!(overview.contains("Exit codes:"), "{overview}");
    let commands: Vec<&str> = overview
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()))
        .collect();
    assert!(commands.len() > 15, "{commands:?}");
    for command in &commands {
        let help = place.run(&[command, "--help"]).await.fine();
        let nested = help.contains("Commands:");
        assert!(nested || help.contains("Example"), "{command} has an example");
        assert!(help.contains("--database"), "{command} takes a database");
    }
    let (_, options) = overview.split_once("\nOptions:").unwrap();
    check("help", options);
    assert_eq!(place.run(&["--version"]).await.fine(), format!("highwater {}\n", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn completions_are_printed_for_each_shell() {
    let place = Postgres::place();
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef highwater"), ("fish", "complete -c highwater")] {
        let script = place.run(&["completions", shell]).await.fine();
        assert!(script.contains(part) && script.contains("dead-letters"), "{shell}: {script}");
    }
    let ran = place.run(&["completions", "tcsh"]).await;
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[tokio::test]
async fn manual_pages_are_printed_and_written() {
    let place = Postgres::place();
    let page = place.run(&["man"]).await.fine();
    assert!(page.contains(".TH highwater 1") && page.contains("Exit codes"), "{page}");
    let written = place.run(&["man", "."]).await.fine();
    assert_eq!(written, "wrote the manual pages to .\n");
    for name in ["highwater.1", "highwater-append.1", "highwater-dead-letters-replay.1"] {
        let page = std::fs::read_to_string(place.folder.join(name)).unwrap();
        assert!(page.contains(".TH "), "{name}: {page}");
    }
    let refused = place.run(&["man", "not/there"]).await.failed(1);
    assert!(refused.contains("cannot write manual pages to not/there"), "{refused}");
}
