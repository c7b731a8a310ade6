//! `--interval`, of pools that are made and of those that are there.

use crate::common::PoolFolder;
use crate::serving::Serving;

/// Serves until it is asked for a line of INFO. Returns what was logged before.
fn serve(place: &PoolFolder, arguments: &[&str], line: &str) -> String {
    let serving = Serving::start(place, arguments);
    let reply = crate::serving::info(&serving, "persistence");
    assert!(reply.contains(&format!("\r\n{line}\r\n")), "{arguments:?}: {reply}");
    serving.signal("TERM");
    let before = serving.before().to_string();
    assert_eq!(serving.end().code, 0);
    before
}

/// Of a pool that was there, it was passed over in silence: a crash lost more than the operator was promised.
#[test]
fn the_interval_of_a_pool_that_is_there_can_be_changed() {
    let place = PoolFolder::empty();
    serve(&place, &["pool"], "durability_interval_ms:1000");
    serve(&place, &["pool", "--interval", "5"], "durability_interval_ms:5");
    serve(&place, &["pool"], "durability_interval_ms:5");
    let arguments = ["pool", "--durability", "interval"];
    serve(&place, &arguments, "durability_interval_ms:1000");
    place.run(["create", "power", "--durability", "power"]).succeeded();
    let told = serve(&place, &["power", "--interval", "5"], "durability:power");
    assert!(told.contains("--interval changes nothing"), "{told}");
}

#[test]
fn an_interval_that_goes_nowhere_is_code_2() {
    let place = PoolFolder::empty();
    for line in [
        "create pool --interval 5",
        "create pool --interval 5 --durability power",
        "create pool --interval 5 --durability process",
        "serve pool --port 0 --interval 5 --durability power",
    ] {
        let sentence = place.run(line.split(' ')).failed(2);
        assert!(sentence.contains("--durability"), "{line}: {sentence}");
        assert!(!place.path("pool").exists());
    }
}
