//! A whole cluster: `cluster.py` runs it, resharding, failover and restart under load.

use std::process::Command;

use crate::server::{module, program, setting};

/// All entries that a replica has confirmed are there at the end, and replicas hold what their masters hold.
#[test]
#[ignore = "by hand: starts six servers and takes a minute; CLUSTER_ENTRIES is how many entries it puts"]
fn by_hand_a_cluster_keeps_what_a_replica_has_confirmed() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/cluster.py");
    let entries = setting("CLUSTER_ENTRIES", 1_000_000).to_string();
    let ended = Command::new("python3")
        .arg(script)
        .arg(module())
        .args(["--entries", &entries, "--server", &program()])
        .output()
        .expect("python3 is there");
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    println!("{out}{err}");
    assert!(ended.status.success(), "{out}{err}");
}
