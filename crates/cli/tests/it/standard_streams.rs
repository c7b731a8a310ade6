//! What stands for a file, and is none: the standard input and output of a process.

use crate::common::{Ended, PoolFolder};
use std::process::{Command, Stdio};

/// Runs a line of the shell behind the program.
fn run(place: &PoolFolder, line: &str) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" {line}"), crate::PROGRAM]);
    command.current_dir(place.path(".")).env_remove("EVERLEAF_POOL");
    Ended::from(command.stdin(Stdio::null()).output().expect("there is a shell"))
}

/// The second `-` waited for the lock of the first one, which the same thread held.
#[test]
fn the_standard_input_is_given_once() {
    let place = PoolFolder::with_pool();
    for arguments in [&["load", "pool", "-", "-"][..], &["load", "pool", "-", "none.tsv", "-"]] {
        let sentence = place.run_with(arguments, b"a\t1\n").failed(2);
        assert!(sentence.contains("give - once"), "{sentence}");
    }
}

/// It passed for an empty one: a value was replaced by nothing, and a load was complete, with code 0.
#[test]
fn a_standard_input_that_cannot_be_read_is_code_7() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "a", "old"]).succeeded();
    for line in ["put pool a --value-file -", "load pool -"] {
        for input in ["<&-", "0>written"] {
            let sentence = run(&place, &format!("{line} {input}")).failed(7);
            assert!(sentence.starts_with("cannot read -: "), "{line} {input}: {sentence}");
        }
    }
    assert_eq!(place.run(["get", "pool", "a"]).succeeded(), "old");
    assert_eq!(run(&place, "put pool a --value-file - </dev/null").succeeded(), "replaced\n");
    assert_eq!(run(&place, "put pool b --value-file - 0<>/dev/null").succeeded(), "inserted\n");
}

/// Each write to it is refused, which the standard library takes for written.
#[test]
fn an_output_that_is_open_for_reading_is_code_7() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "a", "1"]).succeeded();
    for line in ["get pool a", "export pool", "backup pool -", "stat pool"] {
        let sentence = run(&place, &format!("{line} 1</dev/null")).failed(7);
        assert!(sentence.contains("cannot write the output"), "{line}: {sentence}");
    }
}

/// It ended in silence and with 0, so that a supervisor left it down.
#[test]
fn a_server_whose_ready_line_nobody_reads_is_code_7() {
    let place = PoolFolder::with_pool();
    let mut command = place.command(["serve", "pool", "--port", "0", "--json"]);
    let (reader, writer) = std::io::pipe().expect("there are pipes");
    drop(reader);
    let output = command.stdout(writer).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{told}");
    assert!(told.contains("went away"), "{told}");
}
