//! The rules: what in a source is a site, and what is written there.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, ExprIf, Signature, Stmt};

use super::site::{Edit, Key, Kind, NUMBER, Site};
use super::words::{self, Callee};

/// Where the switches are in the copy.
const SWITCHES: &str = "::everleaf_machine::mutation";

/// The sites of a source, in its order.
///
/// # Errors
/// It is not Rust.
pub fn sites_of(path: &str, text: &str) -> syn::Result<Vec<Site>> {
    let file = syn::parse_file(text)?;
    let mut reader = Reader {
        path,
        text,
        functions: vec![],
        calls: vec![],
        ordinals: BTreeMap::new(),
        sites: vec![],
        is_silent: false,
        planted: vec![],
    };
    reader.visit_file(&file);
    Ok(reader.sites)
}

struct Reader<'a> {
    path: &'a str,
    text: &'a str,
    functions: Vec<String>,
    /// The methods whose arguments we are in.
    calls: Vec<String>,
    ordinals: BTreeMap<(String, Kind), usize>,
    sites: Vec<Site>,
    /// What is here is run by no search, or has no effect but speed: it is counted, but no site.
    is_silent: bool,
    /// Variables that say whether a bug is planted.
    planted: Vec<String>,
}

impl Reader<'_> {
    fn add(&mut self, kind: Kind, at: Span, edits: Vec<Edit>) {
        let function = self.functions.last().cloned().unwrap_or_default();
        let ordinal = self.ordinals.entry((function.clone(), kind)).or_default();
        *ordinal += 1;
        if self.is_silent {
            return;
        }
        let key = Key { file: self.path.to_string(), function, kind, ordinal: *ordinal };
        let line = at.start().line;
        let text = self.text.lines().nth(line - 1).unwrap_or_default().trim().to_string();
        self.sites.push(Site { key, line, text, edits });
    }

    /// Puts something around an expression or a statement.
    fn wrap(&mut self, kind: Kind, around: &impl Spanned, before: &str, behind: &str) {
        let span = around.span();
        let Range { start, end } = span.byte_range();
        let edits = vec![Edit::Before(start, before.into()), Edit::Behind(end, behind.into())];
        self.add(kind, span, edits);
    }

    fn never(&mut self, kind: Kind, condition: &Expr) {
        self.wrap(kind, condition, &format!("(!{SWITCHES}::site({NUMBER}) && ("), "))");
    }

    fn always(&mut self, kind: Kind, condition: &Expr) {
        self.wrap(kind, condition, &format!("({SWITCHES}::site({NUMBER}) || ("), "))");
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        if words::is_test(attributes) || signature.constness.is_some() {
            return;
        }
        let name = signature.ident.to_string();
        let is_hint = words::is_hint(&name);
        self.functions.push(name);
        let planted = std::mem::take(&mut self.planted);
        self.silently(is_hint, |reader| reader.visit_block(block));
        self.planted = planted;
        self.functions.pop();
    }

    /// Does something; what is met in it is no site if so.
    fn silently(&mut self, is_silent: bool, visit: impl FnOnce(&mut Self)) {
        let before = self.is_silent;
        self.is_silent |= is_silent;
        visit(self);
        self.is_silent = before;
    }

    /// A statement that persists: never, and behind the next one.
    fn persist(&mut self, statement: &Stmt, next: Option<&Stmt>) {
        let Range { start, end } = statement.span().byte_range();
        if let Some(next) = next {
            let behind = format!("if {SWITCHES}::site({NUMBER}) {{ {} }}", &self.text[start..end]);
            let edits = vec![
                Edit::Before(start, format!("if !{SWITCHES}::site({NUMBER}) {{ ")),
                Edit::Behind(end, " }".into()),
                Edit::Behind(next.span().byte_range().end, behind),
            ];
            self.add(Kind::LatePersist, statement.span(), edits);
        }
        self.leave_out(statement);
    }

    fn leave_out(&mut self, what: &impl Spanned) {
        self.wrap(Kind::NoPersist, what, &format!("if !{SWITCHES}::site({NUMBER}) {{ "), " }");
    }

    fn exchange(&mut self, one: &Stmt, other: &Stmt) {
        let Range { start, end } = other.span().byte_range();
        let first = format!("if {SWITCHES}::site({NUMBER}) {{ {} }}", &self.text[start..end]);
        let edits = vec![
            Edit::Before(one.span().byte_range().start, first),
            Edit::Before(start, format!("if !{SWITCHES}::site({NUMBER}) {{ ")),
            Edit::Behind(end, " }".into()),
        ];
        self.add(Kind::SwappedStores, one.span(), edits);
    }

    /// The parts of a condition that may be changed: all of it, or what is no pattern of a chain.
    fn condition<'e>(&self, condition: &'e Expr) -> Vec<&'e Expr> {
        if !words::has_let(condition) {
            return vec![condition];
        }
        let mut parts = vec![condition];
        while let Some(index) = parts.iter().position(|part| words::is_and(part)) {
            if let Expr::Binary(chain) = parts.remove(index) {
                parts.splice(index..index, [&*chain.left, &*chain.right]);
            }
        }
        parts.retain(|part| !words::has_let(part));
        parts
    }

    fn constant(&self, condition: &Expr) -> Option<bool> {
        words::constant(condition, &self.planted)
    }

    fn branch(&mut self, branch: &ExprIf) {
        let otherwise = branch.else_branch.as_ref().map(|(_, block)| &**block);
        let leads_away = words::leads_away(&branch.then_branch);
        let other_leads_away = otherwise.is_some_and(words::is_leading_away);
        for part in self.condition(&branch.cond) {
            if words::is_of_build(part) || self.constant(part).is_some() {
                continue;
            }
            match (leads_away, other_leads_away, otherwise) {
                (true, _, _) => self.never(Kind::NoCheck, part),
                (_, true, _) => self.always(Kind::NoCheck, part),
                (_, _, None) => {
                    self.never(Kind::NoStep, part);
                    self.always(Kind::AlwaysStep, part);
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.function(&node.attrs, &node.sig, &node.block);
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.function(&node.attrs, &node.sig, &node.block);
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.function(&node.attrs, &node.sig, block);
        }
    }

    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        if !words::is_test(&node.attrs) {
            visit::visit_item_mod(self, node);
        }
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        if !words::is_test(&node.attrs) && !words::is_for_show(node) {
            visit::visit_item_impl(self, node);
        }
    }

    // What the compiler evaluates has no switches.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, _: &'ast syn::ExprRepeat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}

    fn visit_block(&mut self, block: &'ast Block) {
        let before = self.is_silent;
        for (index, statement) in block.stmts.iter().enumerate() {
            let next = block.stmts.get(index + 1);
            let is_last = index + 2 >= block.stmts.len();
            match Callee::of(statement) {
                Some(callee) if callee.persists() => {
                    let next = next.filter(|next| words::may_come_before(next, is_last));
                    self.persist(statement, next.filter(|_| words::has_end(statement)));
                }
                Some(callee) if callee.stores() => {
                    if let Some(next) = next
                        && Callee::of(next).is_some_and(|callee| callee.stores())
                        && words::has_end(next)
                        && [statement, next].iter().any(|one| {
                            let text = &self.text[one.span().byte_range()];
                            text.contains("Ordering::Release") || text.contains("Ordering::SeqCst")
                        })
                    {
                        self.exchange(statement, next);
                    }
                }
                _ => {}
            }
            self.visit_stmt(statement);
            self.planted.extend(words::planted_by(statement));
            // A simulated machine never comes behind it.
            self.is_silent |= words::ends_simulated(statement);
        }
        self.is_silent = before;
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if Callee::of_expression(&arm.body).is_some_and(|callee| callee.persists()) {
            self.leave_out(&arm.body);
        }
        if let Some((_, guard)) = &arm.guard {
            self.visit_expr(guard);
        }
        self.visit_expr(&arm.body);
    }

    fn visit_expr_if(&mut self, node: &'ast ExprIf) {
        if self.constant(&node.cond).is_none() {
            let is_hint = node.else_branch.is_none() && words::has_only_hints(&node.then_branch);
            return self.silently(is_hint, |reader| {
                reader.branch(node);
                visit::visit_expr_if(reader, node);
            });
        }
        // What is only there for planted bugs is never done.
        if self.constant(&node.cond) == Some(true) {
            self.visit_block(&node.then_branch);
        } else if let Some((_, other)) = &node.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_while(&mut self, node: &'ast syn::ExprWhile) {
        // As in `visit_expr_if`.
        if self.constant(&node.cond) == Some(false) {
            return;
        }
        let waits = self.text[node.body.span().byte_range()].contains("spin");
        if waits && !words::has_let(&node.cond) {
            self.never(Kind::NoWait, &node.cond);
        }
        visit::visit_expr_while(self, node);
    }

    fn visit_expr_method_call(&mut self, node: &'ast syn::ExprMethodCall) {
        self.visit_expr(&node.receiver);
        self.calls.push(node.method.to_string());
        node.args.iter().for_each(|argument| self.visit_expr(argument));
        self.calls.pop();
    }

    fn visit_expr_call(&mut self, node: &'ast syn::ExprCall) {
        let callee = Callee::of_expression(&Expr::Call(node.clone()));
        self.calls.push(callee.map(|callee| callee.0).unwrap_or_default());
        visit::visit_expr_call(self, node);
        self.calls.pop();
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        if self.constant(&Expr::Binary(node.clone())) == Some(false) {
            return;
        }
        let name = match node.op {
            BinOp::Lt(_) => Some("less"),
            BinOp::Le(_) => Some("at_most"),
            BinOp::Gt(_) => Some("more"),
            BinOp::Ge(_) => Some("at_least"),
            _ => None,
        };
        if let Some(name) = name
            && !words::is_of_build(&Expr::Binary(node.clone()))
        {
            let Range { start, end } = node.span().byte_range();
            let sign = node.op.span().byte_range();
            let edits = vec![
                Edit::Before(start, format!("{SWITCHES}::{name}({NUMBER}, &(")),
                Edit::Instead(sign.start, sign.end, "), &(".into()),
                Edit::Behind(end, "))".into()),
            ];
            self.add(Kind::Boundary, node.span(), edits);
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_path(&mut self, node: &'ast syn::ExprPath) {
        let mut names = node.path.segments.iter().rev().map(|segment| segment.ident.to_string());
        let (Some(order), Some(kind)) = (names.next(), names.next()) else { return };
        if kind != "Ordering" {
            return;
        }
        let call = self.calls.last().cloned().unwrap_or_default();
        for weaker in words::weaker(&order, &call) {
            let before = format!("{SWITCHES}::ordering({NUMBER}, ");
            self.wrap(Kind::WeakOrder, node, &before, &format!(", Ordering::{weaker})"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_for_planted_bugs_is_no_site() {
        let text = r#"fn f(a: u64) {
            let late = M::mutant("late");
            if late && a < 1 { g(a < 2); }
            if !late { g(1); }
            let any = a < 3 && M::mutant("any");
            while late && a < 3 { g(a < 2); }
            if a < 4 { g(2); }
        }"#;
        let sites = sites_of("a.rs", text).expect("it is Rust");
        let kinds: Vec<Kind> = sites.iter().map(|site| site.key.kind).collect();
        assert_eq!(kinds, [Kind::NoStep, Kind::AlwaysStep, Kind::Boundary]);
        assert!(sites.iter().all(|site| site.text.contains("a < 4")));
    }
}
