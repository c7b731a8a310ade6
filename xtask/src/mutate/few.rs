//! A prover of a few structures: all of them take the compiler many minutes.

use syn::spanned::Spanned;
use syn::{Expr, Item};

/// Where the list of all structures is.
const ALL: &str = "crates/prove-designs/src/structures.rs";
/// Where the lists are: that of all, and that of the product, whose structures the former has, too.
pub const LISTS: [&str; 2] = [ALL, "crates/prove/src/structures.rs"];

/// The package whose list has all of these structures, or all if none is named: the designs of the other one are not
/// compiled if it is the product's.
pub fn package(list_of_product: &str, names: &[String]) -> &'static str {
    let is_there = |name: &String| list_of_product.contains(&format!("\"{name}\","));
    let is_product = !names.is_empty() && names.iter().all(is_there);
    if is_product { "everleaf-prove" } else { "everleaf-prove-designs" }
}

/// The source of a list with these structures only, those of them that it has, and without what they do not need.
///
/// # Errors
/// A sentence if it is not what it was, or no list has such a structure.
pub fn only(path: &str, text: &str, names: &[String]) -> Result<String, String> {
    let file = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
    let statics: Vec<_> = file
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Static(item) => Some(item),
            _ => None,
        })
        .collect();
    let list = statics.iter().find(|item| item.ident == "STRUCTURES");
    let list = list.ok_or_else(|| format!("{path} has no STRUCTURES"))?;
    let Expr::Reference(list) = &*list.expr else { return Err(format!("{path}: no list")) };
    let Expr::Array(list) = &*list.expr else { return Err(format!("{path}: no list")) };
    let mut chosen = String::new();
    for name in names {
        let is_it = |element: &&Expr| {
            let text = &text[element.span().byte_range()];
            let start = text.split_once('"').map(|(_, behind)| behind);
            start.and_then(|text| text.split_once('"')).is_some_and(|(own, _)| own == name)
        };
        let element = match list.elems.iter().find(is_it) {
            Some(element) => element,
            None if path == ALL => return Err(format!("there is no structure {name}")),
            None => continue,
        };
        chosen.push_str(&text[element.span().byte_range()]);
        chosen.push_str(", ");
    }
    let mut edits = vec![(list.span().byte_range(), format!("[{chosen}]"))];
    // The compiler would compile a static that nobody uses.
    let is_needed = |name: &str| {
        chosen.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
    };
    for item in statics {
        let name = item.ident.to_string();
        if name != "STRUCTURES" && !is_needed(&name) {
            edits.push((item.span().byte_range(), String::new()));
        }
    }
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut result = text.to_string();
    for (range, text) in edits {
        result.replace_range(range, &text);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prover_has_what_is_asked_for_and_its_statics() {
        let text = "static A: u8 = 1;\nstatic B: u8 = 2;\npub static STRUCTURES: &[S] = &[one(\"a\", \"the a\", \
            &A), one(\n\"b\", \"a\", &x(B))];\nfn f() {}\n";
        let [all, of_product] = LISTS;
        let of = |name: &str| only(all, text, &[name.to_string()]);
        let expected = "\nstatic B: u8 = 2;\npub static STRUCTURES: &[S] = &[one(\n\"b\", \"a\", &x(B)), ];\nfn f() \
            {}\n";
        assert_eq!(of("b").as_deref(), Ok(expected));
        assert!(of("a").is_ok_and(|text| text.contains("static A") && !text.contains("static B")));
        assert!(of("c").is_err_and(|what| what.contains("structure c")));
        let package = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
            super::package(text, &names)
        };
        assert_eq!(package(&["a"]), "everleaf-prove");
        assert_eq!(package(&["a", "c"]), "everleaf-prove-designs");
        assert_eq!(package(&[]), "everleaf-prove-designs");
        let none = only(of_product, text, &["c".to_string()]).expect("a list");
        assert!(none.contains("[S] = &[];") && !none.contains("static A"), "{none}");
    }
}
