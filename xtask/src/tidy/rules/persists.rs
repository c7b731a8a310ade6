//! Every persist point says what must be durable before what: `// Persist: A before B, or ..`.
//!
//! A persist point is a call of `persist`, `flush` or `drain`, or of a function named after one
//! (`persist_header`), in pool, alloc and index. Functions that carry such a name themselves only
//! pass the verb on and are exempt; so is test code. `Vec::drain(range)` and `Write::flush()` are
//! told apart by their number of arguments. A flush may leave the explanation to the drain or
//! persist that completes it in the same function.

use syn::spanned::Spanned;
use syn::visit::Visit;

use super::{Finding, Rule, Workspace, finding, sources_of};

pub const RULE: Rule = Rule { name: "persist", may_be_debt: true, check };

const VERBS: [&str; 3] = ["persist", "flush", "drain"];

/// How many lines above the line or its statement the comment may end.
const REACH: usize = 4;

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in sources_of(workspace, &["pool", "alloc", "index", "designs"]) {
        let mut calls = Calls::default();
        calls.visit_file(&rust.ast);
        let is_explained = |line: usize| {
            rust.is_test_line(line)
                || rust.comments_near(line, REACH).iter().any(|text| text.contains("Persist:"))
        };
        for (index, call) in calls.found.iter().enumerate() {
            let completion = calls.found[index..]
                .iter()
                .find(|later| later.function == call.function && !later.is_flush);
            let is_completed = call.is_flush && completion.is_some_and(|c| is_explained(c.line));
            if !is_explained(call.line) && !is_completed {
                let message = "no comment `Persist: A before B, or ..` above the persist point: say \
                               which order it makes and what recovery would meet without it";
                findings.push(finding(&RULE, &file.path, call.line, message));
            }
        }
    }
    findings
}

/// One persist point.
struct Call {
    line: usize,
    /// First line of the function around it.
    function: usize,
    is_flush: bool,
}

#[derive(Default)]
struct Calls {
    found: Vec<Call>,
    function: usize,
}

impl Calls {
    fn add(&mut self, name: &syn::Ident) {
        self.found.push(Call {
            line: name.span().start().line,
            function: self.function,
            is_flush: name.to_string().starts_with("flush"),
        });
    }
}

/// Whether a name is a verb, or begins with one.
fn is_verb(name: &str) -> bool {
    VERBS.iter().any(|verb| {
        name.strip_prefix(verb).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_verb(&item.sig.ident.to_string()) {
            self.function = item.span().start().line;
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_verb(&item.sig.ident.to_string()) {
            self.function = item.span().start().line;
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let name = call.method.to_string();
        let is_ours = match name.as_str() {
            "drain" => call.args.is_empty(),
            "flush" | "persist" => !call.args.is_empty(),
            other => is_verb(other),
        };
        if is_ours {
            self.add(&call.method);
        }
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func
            && let Some(last) = path.path.segments.last()
            && is_verb(&last.ident.to_string())
        {
            self.add(&last.ident);
        }
        syn::visit::visit_expr_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    const PATH: &str = "crates/alloc/src/x.rs";

    #[test]
    fn a_persist_point_without_its_comment_is_refused() {
        let text = "fn f() {\n    medium.persist(p, 8);\n    medium.flush(p, 8);\n    \
                    medium.drain();\n    M::drain();\n    self.persist_header(1);\n}\n";
        assert_eq!(lines_in(&RULE, PATH, text), [2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_persist_point_with_its_comment_passes() {
        let text = "fn f() {\n    // Persist: the entry before its state, or recovery takes noise \
                    (I3).\n    medium.persist(p, 8);\n}\n";
        assert!(lines_in(&RULE, PATH, text).is_empty());
    }

    #[test]
    fn a_flush_is_explained_by_the_drain_that_completes_it() {
        let filler = "    step();\n".repeat(5);
        let text = format!(
            "fn f() {{\n    medium.flush(p, 8);\n    // Persist: p before q (I3).\n    \
             medium.drain();\n{filler}    medium.flush(q, 8);\n}}\n\
             fn g() {{\n    // Persist: not ours.\n    medium.drain();\n}}\n"
        );
        assert_eq!(lines_in(&RULE, PATH, &text), [10]);
    }

    #[test]
    fn other_drains_flushes_and_the_verbs_themselves_are_left_alone() {
        let text = "fn f() {\n    list.drain(..);\n    file.flush();\n    flusher.flushed(1);\n}\n\
                    fn persist(a: u8) {\n    M::flush(a);\n    M::drain();\n}\n";
        assert!(lines_in(&RULE, PATH, text).is_empty());
        assert!(lines_in(&RULE, "crates/server/src/x.rs", "fn f() { a.persist(1); }").is_empty());
    }
}
