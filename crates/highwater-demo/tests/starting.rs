//! Instances that do not do what they should.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use highwater_demo::{Audience, DemoError, Happening, Launch, Plan, Scene, run};

struct Nobody;

impl Audience for Nobody {
    fn scene(&mut self, _scene: &Scene) -> io::Result<()> {
        Ok(())
    }

    fn happened(&mut self, _at: Duration, _what: &Happening) -> io::Result<()> {
        Ok(())
    }
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("highwater-demo-test-{}-{name}.db", std::process::id()))
}

/// Runs the demo with instances that do what a shell is told, in a file that must be gone afterwards.
async fn with_instances(name: &str, script: &str) -> DemoError {
    let file = file(name);
    let plan = Plan {
        database: Some(format!("sqlite:{}", file.display())),
        schema: None,
        seconds: 4,
        rate: 10,
        seed: 1,
        keep: false,
        corrupt: false,
    };
    let launch = Launch { program: "sh".into(), arguments: vec!["-c".into(), script.into()] };
    let failed = run(&plan, &launch, &mut Nobody, std::future::pending()).await.unwrap_err();
    assert!(!file.exists(), "the shop is gone");
    failed
}

#[tokio::test]
async fn one_that_cannot_start_is_named_with_what_it_said() {
    let failed = with_instances("start", "echo there is no disk >&2; exit 3").await;
    assert_eq!(failed.to_string(), "instance 1 did not start (exit status: 3): there is no disk");
}

#[tokio::test]
async fn one_that_ends_by_itself_is_named_with_what_it_said() {
    let failed = with_instances("end", "read job; echo ready; echo the lights went out >&2; exit 4").await;
    assert_eq!(failed.to_string(), "instance 1 ended by itself (exit status: 4): the lights went out");
}
