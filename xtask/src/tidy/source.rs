//! One file of the workspace, with what the rules ask about it.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;

use super::lexer::{self, Line};

/// A text file of the workspace.
pub struct SourceFile {
    /// Path from the root of the workspace, with `/` between its parts.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// What is known of it if it is Rust.
    pub rust: Option<RustSource>,
}

/// A Rust source, parsed.
pub struct RustSource {
    /// The syntax tree.
    pub ast: syn::File,
    /// The lines, comment and code apart; index 0 is line 1.
    pub lines: Vec<Line>,
    /// Whether the whole file is test code.
    pub is_test_file: bool,
    /// First and last line of each test module or test function inside.
    test_ranges: Vec<(usize, usize)>,
    /// First and last line of each statement, match arm and item.
    statements: Vec<(usize, usize)>,
}

impl SourceFile {
    /// Takes a file in. A Rust file that does not parse is an error: a sentence with the place.
    pub fn new(path: &str, text: String) -> Result<Self, String> {
        let rust = match path.ends_with(".rs") {
            true => Some(RustSource::new(path, &text)?),
            false => None,
        };
        Ok(SourceFile { path: path.to_string(), text, rust })
    }

    /// The name of the crate folder, for a file in `crates/<name>/src`.
    pub fn crate_of_source(&self) -> Option<&str> {
        let (name, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    }

    /// The folder of the package whose source this is: a crate, a binding, `xtask` or `rivals`.
    pub fn package_of_source(&self) -> Option<&str> {
        let (folder, _) = self.path.split_once("/src/")?;
        let is_package = match folder.split_once('/') {
            Some((above, name)) => matches!(above, "crates" | "bindings") && !name.contains('/'),
            None => true,
        };
        is_package.then_some(folder)
    }
}

impl RustSource {
    fn new(path: &str, text: &str) -> Result<Self, String> {
        let ast = syn::parse_file(text).map_err(|error| {
            format!("{path}:{}: does not parse: {error}", error.span().start().line)
        })?;
        let mut collector = Collector::default();
        collector.visit_file(&ast);
        Ok(RustSource {
            lines: lexer::split(text),
            is_test_file: is_test_path(path),
            test_ranges: collector.tests,
            statements: collector.statements,
            ast,
        })
    }

    /// Whether line `line` (from 1) is test code.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test_file
            || self.test_ranges.iter().any(|&(first, last)| first <= line && line <= last)
    }

    /// The number of lines that are not test code.
    pub fn product_line_count(&self) -> usize {
        (1..=self.lines.len()).filter(|&line| !self.is_test_line(line)).count()
    }

    /// The first line of the smallest statement, arm or item around `line`.
    pub fn statement_start(&self, line: usize) -> usize {
        self.statements
            .iter()
            .filter(|&&(first, last)| first <= line && line <= last)
            .min_by_key(|&&(first, last)| last - first)
            .map_or(line, |&(first, _)| first)
    }

    /// The comments that speak about `line`: on it, or ending at most `reach` lines above it or
    /// above the statement it belongs to. One string per comment block.
    pub fn comments_near(&self, line: usize, reach: usize) -> Vec<String> {
        let start = self.statement_start(line);
        let mut blocks = Vec::new();
        for around in [line, start] {
            for candidate in (around.saturating_sub(reach).max(1)..=around).rev() {
                let block = self.comment_block_ending_at(candidate);
                if !block.is_empty() && !blocks.contains(&block) {
                    blocks.push(block);
                }
            }
        }
        blocks
    }

    /// The comment on `line`, with the comment-only lines directly above if it is one itself.
    fn comment_block_ending_at(&self, line: usize) -> String {
        let Some(last) = self.lines.get(line - 1).filter(|l| !l.comment.is_empty()) else {
            return String::new();
        };
        let mut first = line;
        if last.is_comment_only() {
            while first > 1 && self.lines[first - 2].is_comment_only() {
                first -= 1;
            }
        }
        let texts: Vec<&str> =
            self.lines[first - 1..line].iter().map(|line| line.comment.trim()).collect();
        texts.join(" ")
    }

    /// Calls `found` with the line and the name of each `first::second` among the tokens, also
    /// inside macros.
    pub fn each_pair_path(&self, text: &str, first: &str, found: &mut dyn FnMut(usize, &str)) {
        if let Ok(tokens) = text.parse::<TokenStream>() {
            walk_pairs(tokens, first, found);
        }
    }
}

fn walk_pairs(tokens: TokenStream, first: &str, found: &mut dyn FnMut(usize, &str)) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => walk_pairs(group.stream(), first, found),
            TokenTree::Ident(name) if name == first => {
                let rest = &tokens[index + 1..];
                if let [TokenTree::Punct(a), TokenTree::Punct(b), TokenTree::Ident(second), ..] =
                    rest
                    && a.as_char() == ':'
                    && b.as_char() == ':'
                {
                    found(second.span().start().line, &second.to_string());
                }
            }
            _ => {}
        }
    }
}

/// Whether a path is test code by its place.
pub fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples" | "fuzz"))
        || path.ends_with("/tests.rs")
}

/// Whether an attribute is `#[cfg(test)]`, `#[cfg(all(test, ..))]` or `#[test]`.
pub fn is_test_attribute(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else { return false };
    if !list.path.is_ident("cfg") {
        return false;
    }
    let condition = list.tokens.to_string();
    condition == "test" || (condition.starts_with("all") && has_word(&condition, "test"))
}

/// Whether `word` stands alone in `text`.
pub fn has_word(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_name) && !text[at + word.len()..].starts_with(is_name)
    })
}

#[derive(Default)]
struct Collector {
    tests: Vec<(usize, usize)>,
    statements: Vec<(usize, usize)>,
}

fn lines_of(node: &impl Spanned) -> (usize, usize) {
    let span = node.span();
    (span.start().line, span.end().line)
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.attrs.iter().any(is_test_attribute) {
            self.tests.push(lines_of(item));
        }
        syn::visit::visit_item_mod(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.attrs.iter().any(is_test_attribute) {
            self.tests.push(lines_of(item));
        }
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.attrs.iter().any(is_test_attribute) {
            self.tests.push(lines_of(item));
        }
        syn::visit::visit_item_impl(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.attrs.iter().any(is_test_attribute) {
            self.tests.push(lines_of(item));
        }
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        self.statements.push(lines_of(statement));
        syn::visit::visit_stmt(self, statement);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.statements.push(lines_of(arm));
        syn::visit::visit_arm(self, arm);
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.statements.push(lines_of(item));
        syn::visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        self.statements.push(lines_of(item));
        syn::visit::visit_impl_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> RustSource {
        SourceFile::new("crates/index/src/x.rs", text.to_string()).unwrap().rust.unwrap()
    }

    #[test]
    fn test_modules_are_not_product_lines() {
        let source = rust("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        assert!(!source.is_test_line(1));
        assert!(source.is_test_line(3) && source.is_test_line(4) && source.is_test_line(5));
        assert!(!source.is_test_line(6));
        let all_unix = "#[cfg(all(test, unix))]\nmod a { }\n#[cfg(not(test))]\nmod b { }";
        let source = rust(all_unix);
        assert!(source.is_test_line(2) && !source.is_test_line(4));
    }

    #[test]
    fn a_comment_above_a_statement_speaks_about_its_last_line() {
        let source = rust(
            "fn a() {\n    // One\n    // two.\n    call(\n        1,\n        2,\n        3,\n        \
             4,\n        5,\n        6,\n    );\n}\n",
        );
        assert_eq!(source.statement_start(10), 4);
        assert_eq!(source.comments_near(10, 4), ["One two.", "One"]);
    }

    #[test]
    fn a_source_is_of_the_package_around_it() {
        let of = |path: &str| {
            let file = SourceFile::new(path, String::new()).unwrap();
            file.package_of_source().map(str::to_string)
        };
        assert_eq!(of("crates/store/src/map/write.rs").as_deref(), Some("crates/store"));
        assert_eq!(of("bindings/python/src/src/a.rs").as_deref(), Some("bindings/python"));
        assert_eq!(of("xtask/src/main.rs").as_deref(), Some("xtask"));
        assert_eq!(of("crates/index/tests/it/main.rs"), None);
        assert_eq!(of("crates/index/tests/src/main.rs"), None);
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("a XX, b", "XX"));
        assert!(!has_word("aXX", "XX") && !has_word("XX_a", "XX"));
    }

    #[test]
    fn a_file_that_does_not_parse_is_named() {
        let error = SourceFile::new("a.rs", "fn (".to_string()).err().unwrap();
        assert!(error.starts_with("a.rs:1:"), "{error}");
    }
}
