//! Puts the switches of sites into the text of a file.

use super::site::{Edit, NUMBER, Site};
use std::ops::Range;

/// The text with the switches of its sites, each with its number, and where each site is in it.
pub fn apply(text: &str, sites: &[(usize, &Site)]) -> (String, Vec<(usize, Range<usize>)>) {
    let mut all: Vec<Placed> = vec![];
    for (number, site) in sites {
        for edit in &site.edits {
            all.push(Placed::of(*number, all.len(), edit));
        }
    }
    all.sort_by_key(|placed| (placed.at, placed.rank));
    let mut result = String::with_capacity(text.len() * 2);
    let mut places: Vec<(usize, Range<usize>)> = vec![];
    let mut done = 0;
    for placed in all {
        result.push_str(&text[done..placed.at]);
        let start = result.len();
        result.push_str(&placed.text.replace(NUMBER, &placed.site.to_string()));
        done = placed.end;
        match places.iter_mut().find(|(site, _)| *site == placed.site) {
            Some((_, range)) => range.end = result.len(),
            None => places.push((placed.site, start..result.len())),
        }
    }
    result.push_str(&text[done..]);
    (result, places)
}

/// An edit in its order.
struct Placed {
    at: usize,
    end: usize,
    /// At one position: first what ends there, the innermost first; then what begins, the outermost first.
    rank: (u8, isize),
    site: usize,
    text: String,
}

impl Placed {
    fn of(site: usize, index: usize, edit: &Edit) -> Placed {
        let index = index as isize;
        let (at, end, rank, text) = match edit {
            Edit::Behind(at, text) => (*at, *at, (0, -index), text),
            Edit::Before(at, text) => (*at, *at, (1, index), text),
            Edit::Instead(at, end, text) => (*at, *end, (2, index), text),
        };
        Placed { at, end, rank, site, text: text.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::sites_of;
    use super::*;

    /// The body of a function, rewritten, its sites numbered from 1; without white space at line ends.
    fn rewritten(body: &str) -> String {
        let text = format!("fn f(&self) {{\n{body}\n}}\n");
        let sites = sites_of("a.rs", &text).expect("it is Rust");
        let numbered: Vec<_> = (1..).zip(&sites).collect();
        let (all, places) = apply(&text, &numbered);
        assert_eq!(places.len(), sites.len());
        syn::parse_file(&all).expect("what is rewritten is Rust");
        let all = all.replace("::everleaf_machine::mutation::", "");
        let inside = all.trim_end().strip_suffix('}').expect("it ends");
        inside.split_once("{\n").expect("it begins").1.trim_end().to_string()
    }

    #[test]
    fn a_persist_is_left_out_and_comes_late() {
        let late = "if !site(1) { if !site(2) { self.persist(a); } } b.set(1);if site(1) { self.persist(a); }";
        assert_eq!(rewritten("self.persist(a); b.set(1);"), late);
        assert_eq!(rewritten("M::drain();"), "if !site(1) { M::drain(); }");
        assert_eq!(
            rewritten("match a { B => M::drain(), }"),
            "match a { B => if !site(1) { M::drain() }, }"
        );
    }

    #[test]
    fn orderings_are_weakened_in_both_halves() {
        assert_eq!(
            rewritten("a.fetch_or(1, Ordering::AcqRel);"),
            "a.fetch_or(1, ordering(1, ordering(2, Ordering::AcqRel, Ordering::Acquire), Ordering::Release));"
        );
        assert_eq!(rewritten("a.load(Ordering::Relaxed);"), "a.load(Ordering::Relaxed);");
        assert_eq!(
            rewritten("let x = a.load(Ordering::SeqCst);"),
            "let x = a.load(ordering(1, Ordering::SeqCst, Ordering::Acquire));"
        );
    }

    #[test]
    fn a_check_passes_whichever_branch_leads_away() {
        assert_eq!(
            rewritten("if a.moved() { return; }"),
            "if (!site(1) && (a.moved())) { return; }"
        );
        let other = "if (site(1) || (a.fits())) { b() } else { return }";
        assert_eq!(rewritten("if a.fits() { b() } else { return }"), other);
        let chain = "if let Some(x) = y && (!site(1) && (x.moved())) { return; }";
        assert_eq!(rewritten("if let Some(x) = y && x.moved() { return; }"), chain);
    }

    #[test]
    fn a_step_is_never_and_always_taken_and_nobody_waits() {
        assert_eq!(
            rewritten("if a.lags() { help(); }"),
            "if (!site(1) && ((site(2) || (a.lags())))) { help(); }"
        );
        assert_eq!(
            rewritten("while a.locked() { M::spin(0); }"),
            "while (!site(1) && (a.locked())) { M::spin(0); }"
        );
    }

    #[test]
    fn bounds_take_and_leave_what_is_equal() {
        assert_eq!(rewritten("let b = x < y + 1;"), "let b = less(1, &(x ), &( y + 1));");
        assert_eq!(rewritten("let b = x >= y;"), "let b = at_least(1, &(x ), &( y));");
    }

    #[test]
    fn neighbouring_stores_are_exchanged() {
        let text = "a.store(1, Ordering::Relaxed); b.store(2, Ordering::Release);";
        let swapped = "if site(1) { b.store(2, Ordering::Release); }a.store(1, Ordering::Relaxed); \
                       if !site(1) { b.store(2, ordering(2, Ordering::Release, Ordering::Relaxed)); }";
        assert_eq!(rewritten(text), swapped);
    }

    #[test]
    fn what_is_no_site_is_counted_all_the_same() {
        let text = "fn f() { if a.b() { M::prefetch(a); } if c.d() { e(); } }";
        let sites = sites_of("a.rs", text).expect("it is Rust");
        assert_eq!(sites.iter().map(|site| site.key.ordinal).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn constants_macros_tests_and_planted_bugs_are_left_alone() {
        for text in [
            "const fn f() -> bool { 1 < 2 }",
            "const A: bool = 1 < 2;",
            "#[cfg(test)] mod tests { fn f() { M::drain(); } }",
            "#[test] fn f() { M::drain(); }",
            "fn f() { debug_assert!(a < b); let x = [0; { (1 < 2) as usize }]; }",
            "fn f() { if M::mutant(\"a.b\") { x.y(); } if !M::mutant(\"a.b\") { x.y(); } if M::SIMULATED { a(); } }",
            "fn f() { if a.b() && self.disk.mutant(\"a.b\") { M::drain(); } }",
            "fn f() { if M::SIMULATED { return; } if a.b() { c(); } }",
            "fn f() { if a.b() { M::prefetch(a); M::mark(\"b\"); } }",
            "fn prefetch_all() { if a < b { M::prefetch(a); } }",
            "impl fmt::Display for A { fn fmt(&self) { if self.a < 1 { b(); } } }",
        ] {
            let sites = sites_of("a.rs", text).expect("it is Rust");
            assert!(sites.is_empty(), "{text}: {:?}", sites[0].key);
        }
    }
}
