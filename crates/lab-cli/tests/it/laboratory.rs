//! `everleaf-lab`: lists, runs, resumes, compares, reports. No times are asserted.

use crate::common::PoolFolder;

/// A quick experiment of counts only.
const QUICK: &str = "nbtree.fig13";

#[test]
fn the_list_has_every_paper() {
    let place = PoolFolder::empty();
    let text = place.run(["list"]).succeeded();
    for name in ["nbtree.table1", "fast-fair.flushes", "rntree.fig4", "sptree.fig2", "f3.fig7"] {
        assert!(text.contains(name), "{name} in\n{text}");
    }
    let list = place.run(["list", "--json"]).json();
    let entries = list.as_array().expect("a list");
    assert!(entries.iter().all(|entry| text.contains(entry["id"].as_str().expect("a name"))));
    let (absent, present): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry["why_not"].is_string());
    assert!(present.iter().all(|entry| entry["seconds_quick"].is_u64()));
    assert_eq!(absent.len(), 1, "{absent:?}");
    assert_eq!(absent[0]["id"], "nbtree.fig16");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains("two sockets") && last.contains("nbtree.fig16"), "{last}");
}

#[test]
fn a_run_is_kept_resumed_compared_and_shown() {
    let place = PoolFolder::empty();
    let run = ["run", QUICK, "--out", "kept"];
    let text = place.run(run).succeeded();
    assert!(text.contains("the paper:") && text.contains("1 experiments"), "{text}");
    let finding = place.path(&format!("kept/{QUICK}.json"));
    let first = std::fs::read_to_string(&finding).expect("the finding is kept");
    // Again: nothing is made, the same is shown.
    let again = place.run(run);
    assert!(again.err.contains("was there already"), "{}", again.err);
    assert_eq!((again.code, &*String::from_utf8_lossy(&again.out)), (0, &*text));
    assert_eq!(std::fs::read_to_string(&finding).expect("still there"), first);
    // Compared with itself nothing is slower; with one flush less before, something is.
    let same = place.run(["compare", "kept", "kept"]).succeeded();
    assert!(same.contains("0 slower"), "{same}");
    let mut old: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    let values = &mut old["series"][0]["values"][0];
    *values = (values.as_f64().expect("a number") / 2.0).into();
    place.write("old.json", old.to_string());
    let slower = place.run(["compare", "old.json", "kept"]);
    assert_eq!(slower.code, 1, "{}", slower.err);
    assert!(String::from_utf8_lossy(&slower.out).contains("SLOWER"));
    // The report is one file that asks for nothing.
    place.run(["report", "kept", "-o", "a.html", "-o", "a.md"]).succeeded();
    let html = String::from_utf8(place.read("a.html")).expect("text");
    assert!(html.contains(QUICK) && html.contains("<svg") == html.contains("<figure>"));
    for outside in ["http://", "https://", "<script", "<link", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(String::from_utf8(place.read("a.md")).expect("text").contains("| figure | paper |"));
}

#[test]
fn reports_of_the_bench_are_shown_side_by_side() {
    let place = PoolFolder::empty();
    let short = ["--keys", "2k", "--ops", "300", "--rounds", "2", "--json"];
    let bench = ["bench", "get", "update", "--threads", "1,2"];
    let one = place.run(bench.iter().chain(&short)).succeeded();
    let two = place.run(bench.iter().chain(&["--index", "fptree"]).chain(&short)).succeeded();
    std::fs::create_dir(place.path("kept")).expect("a folder");
    place.write("kept/rivals.json", format!("[{one},{two}]"));
    place.run(["report", "kept", "-o", "a.html", "-o", "a.md"]).succeeded();
    let html = String::from_utf8(place.read("a.html")).expect("text");
    assert!(html.contains("rivals.json") && html.contains("fptree"), "{html}");
    assert_eq!(html.matches("<figure>").count(), 4, "two workloads on one thread and on two");
    assert!(html.contains("bar own"));
    let compared = place.run(["compare", "kept", "kept", "--json"]).json();
    assert_eq!(compared["compared"].as_array().map(Vec::len), Some(8));
}

#[test]
fn what_cannot_be_done_is_said_with_a_way_out() {
    let place = PoolFolder::empty();
    let unknown = place.run(["run", "nothing"]);
    assert!(unknown.code == 2 && unknown.err.contains("everleaf-lab list"), "{}", unknown.err);
    let absent = place.run(["report", "absent"]);
    assert!(absent.code == 7 && absent.err.contains("absent"), "{}", absent.err);
    std::fs::create_dir(place.path("empty")).expect("a folder");
    let empty = place.run(["report", "empty"]);
    assert!(empty.code == 2 && empty.err.contains("run all"), "{}", empty.err);
    place.write("a.json", "{}");
    let nothing = place.run(["compare", "a.json", "a.json"]);
    assert!(nothing.code == 2 && nothing.err.contains("nothing to compare"), "{}", nothing.err);
}
