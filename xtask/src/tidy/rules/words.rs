//! One word per thing, and the field's: what had a name of our own has one that others know.

use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "words", may_be_debt: true, check };

/// Files that must name the words to speak of them.
const EXEMPT: [&str; 4] =
    ["docs/glossary.md", "docs/reading.md", "xtask/src/tidy/rules/words.rs", "CHANGELOG.md"];

/// What is not written any more, and what is written instead.
const BANNED: &[(&str, &str)] = &[
    ("PowerLog", "StoreLog"),
    ("AsItWas", "LogEffect::Unchanged"),
    ("ToBeRead", "LogEffect::Reread"),
    ("hold_writes", "defer_sync"),
    ("settle_down", "lower_if_idle"),
    ("settle", "drain, persist, write, wait: what is done"),
    ("settles", "drains, persists, writes, waits: what is done"),
    ("settled", "durable, written, quiescent: what it then is"),
    ("settle_owed", "write_owed_snapshot"),
    ("await_settled", "await_owed_writer"),
    ("is_settled", "has_ended, is_any_durable"),
    ("Domain::Line", "Domain::Adr"),
    ("Domain::Visible", "Domain::Eadr"),
    ("LINGERS", "KEPT_RAISED"),
    ("ANCHOR_SIZE", "ROOT_OBJECT_SIZE"),
    ("Shelf", "AllocatorProgram"),
    ("shelf", "a row of words in the pool"),
    ("crowded_words", "near_full_bytes"),
    ("graveyard", "retired trees"),
    ("Buried", "RetiredTree"),
    ("Solo", "SingleTreePool"),
    ("take_error", "the items are results"),
    ("make_together", "apply_unlogged"),
    ("close_door", "block_new_sessions"),
    ("collect_hard", "collect_all"),
    ("Seldom", "RateLimiter"),
    ("Bell", "ShutdownSignal"),
    ("nasty", "published bugs"),
    ("hindered", "preempted"),
    ("unsteady", "noisy"),
    ("foretold", "predicted"),
    ("foretell", "predict"),
    ("foretells", "predicts"),
    ("dear", "expensive"),
    ("dearer", "more expensive"),
    ("dearest", "most expensive"),
    ("made again", "rebuilt"),
    ("the anchor", "the root object"),
    ("an anchor", "a root object"),
    ("frame: TreeContext", "context: TreeContext"),
    ("shelves", "rows of words in the pool"),
    ("Tell", "Callback"),
    ("struct Prepared", "struct LoadedCertificates"),
    ("Wish", "BlockingRequest"),
    ("Parked", "BlockedClients"),
    ("Holdings", "ConnectionGauges"),
    ("Births", "NewMaps"),
    ("enum Was", "enum BeforeImage"),
    ("Allowance", "CopyBudget"),
    ("PIECE", "PageLimit, or how many of what"),
    ("PIECE_LENGTH", "PAGE_LENGTH, or how many of what"),
    ("PIECE_SIZE", "PAGE_SIZE, or how much is read or written at once"),
    ("spoilt", "damaged; of an access: faulty"),
    ("is_spoilt", "has_fault"),
    ("TreeBurial", "TreeFreeing"),
    ("burial", "freeing of retired trees"),
    ("has_rung", "is_signalled"),
    ("own_log", "log_identity"),
    ("make the pool again", "rebuild the pool"),
    ("makes the pool again", "rebuilds the pool"),
    ("made the pool again", "rebuilt the pool"),
    ("making the pool again", "rebuilding the pool"),
    ("enum Left", "LogEffect"),
    ("copy_own", "log_identity, or what is copied"),
    ("take_back", "roll_back"),
    ("Place::forget", "Place::give_up"),
    ("struct Piece", "Chunk, or a page"),
    ("struct Life", "Lifecycle"),
    ("struct Frame", "TreeContext, or what trees have in common"),
    ("struct Base", "PoolBase, or the base of what"),
    ("struct Anchor", "RootObject"),
    ("enum Met", "what was found"),
    ("mod trouble", "mod damage, or what is wrong"),
    ("is_hindered", "was_preempted"),
    ("acl::Session", "acl::Permissions"),
    ("settles_listed", "frees_listed"),
    ("settles_nothing", "frees_nothing"),
    ("settles_twice", "frees_twice"),
    ("settles_early", "marks_early"),
    ("never_settled", "mark_unread"),
    ("settle_value", "persist_value"),
    ("_frame: TreeContext", "_context: TreeContext"),
    ("struct Guarded", "LockedVersion, or what is locked"),
];

/// What is no part of a name in code, where the words above that are names as well are none either.
const PARTS: &[(&str, &str)] = &[
    ("guarded", "directed, locked, or how it is guarded"),
    ("solo", "single"),
    ("unsettled", "deferred"),
    ("settling", "persisting, waiting: what is done"),
    ("taken_back", "rolled_back, or freed"),
];

/// Whether a letter, digit or underscore.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether `line` has `word` between other signs.
pub(super) fn has(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].bytes().next_back();
        let after = line[start + word.len()..].bytes().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Whether code in lower case has `word` in a name, as all of it or between underscores.
fn has_in_name(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(start, _)| {
        let before = code[..start].bytes().next_back();
        let after = code[start + word.len()..].bytes().next();
        !before.is_some_and(|byte| byte.is_ascii_alphanumeric())
            && !after.is_some_and(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Whether a word can be a part of a name.
fn is_name(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = workspace.files.iter().filter(|file| !EXEMPT.contains(&file.path.as_str()));
    for file in files {
        let code = file.rust.as_ref().map_or(&[][..], |rust| &rust.lines);
        for (index, line) in file.text.lines().enumerate() {
            let code = code.get(index).map_or("", |line| &line.code);
            let code = code.to_ascii_lowercase();
            let whole = BANNED.iter().filter(|(word, _)| has(line, word));
            let others = BANNED.iter().filter(|(word, _)| is_name(word) && !has(line, word));
            let parts = others.chain(PARTS).filter(|(word, _)| has_in_name(&code, word));
            for (word, instead) in whole.chain(parts) {
                let message = format!("`{word}`: write `{instead}` (docs/glossary.md)");
                findings.push(finding(&RULE, &file.path, index + 1, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn words_of_our_own_are_refused_and_their_parts_are_not() {
        for (word, _) in BANNED {
            assert_eq!(
                lines_in(&RULE, "docs/a.md", &format!("fine\nsee {word}.\n")),
                [2],
                "{word}"
            );
        }
        let fine = "endear, Bells, Solos, take_errors; what is made against it\n";
        assert!(lines_in(&RULE, "docs/a.md", fine).is_empty());
    }

    #[test]
    fn they_are_no_parts_of_names_in_code_either() {
        let code = "//! A guarded bit.\nfn new_solo() {}\nfn soloist() {}\nconst GUARDED: u8 = 1;\n\
                    fn f() { g(\"nodes.taken_back\") }\nfn is_unsteady_now() {}\n\
                    static GUARDED_BY: u8 = 1;\n";
        assert_eq!(lines_in(&RULE, "crates/a/src/a.rs", code), [2, 4, 5, 6, 7]);
        assert!(lines_in(&RULE, "docs/a.md", "`new_solo`, guarded by a bit\n").is_empty());
    }
}
