//! What landings choose tests by is in their names, here and in the tests of the designs.

use std::path::Path;

/// Landings run the tests again that have `survive` in their names, with further numbers; some that searched on
/// were called otherwise, and were left out.
#[test]
fn a_search_that_goes_on_says_so_in_its_name() {
    let mut files = vec![];
    for folder in ["tests/it", "../prove-designs/tests/it"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in std::fs::read_dir(folder).expect("the tests").flatten() {
            files.extend(
                entry.path().extension().is_some_and(|it| it == "rs").then(|| entry.path()),
            );
        }
    }
    let mut found = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file");
        for test in text.split("#[test]\n").skip(1) {
            let Some((name, body)) = test.split_once("() {\n") else { continue };
            let name = name.rsplit("fn ").next().unwrap_or(name);
            let body = body.split("\n}\n").next().unwrap_or(body);
            if body.contains("numbers(") || body.contains(" survive(") {
                found += 1;
                assert!(name.contains("survive"), "{}: {name}", file.display());
            }
        }
    }
    assert!(found > 20, "{found} searches");
}
