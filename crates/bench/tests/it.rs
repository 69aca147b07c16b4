//! The load program as a person runs it, where it cannot start.
#![expect(clippy::disallowed_methods, reason = "the tests start the program under test")]

use std::process::Command;

#[test]
fn a_mistake_of_the_user_prints_its_cause_without_a_backtrace() {
    let bench = env!("CARGO_BIN_EXE_omoi-bench");
    for (args, cause) in [
        (["--omoi", "/nonexistent", "--only", "page"], "no program at /nonexistent"),
        (["--omoi", bench, "--only", "nothing"], "no measurement named nothing"),
    ] {
        let mut command = Command::new(bench);
        command.args(args).args(["--out", "/nonexistent"]).env("RUST_BACKTRACE", "1");
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.starts_with(&format!("error: {cause}")), "{stderr}");
        assert!(!stderr.to_lowercase().contains("backtrace"), "{stderr}");
    }
}
