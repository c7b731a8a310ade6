//! What the words of a source mean to the rules.

use syn::visit::Visit;
use syn::{Attribute, BinOp, Block, Expr, ItemImpl, Pat, Stmt, UnOp};

/// The name of what a statement calls.
pub struct Callee(pub String);

impl Callee {
    /// Of a statement that is a call.
    pub fn of(statement: &Stmt) -> Option<Callee> {
        match statement {
            Stmt::Expr(expression, _) => Callee::of_expression(expression),
            _ => None,
        }
    }

    pub fn of_expression(expression: &Expr) -> Option<Callee> {
        match expression {
            Expr::MethodCall(call) if call.attrs.is_empty() => {
                Some(Callee(call.method.to_string()))
            }
            Expr::Call(call) if call.attrs.is_empty() => match &*call.func {
                Expr::Path(path) => {
                    path.path.segments.last().map(|last| Callee(last.ident.to_string()))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether it makes something durable, or orders what does. A light barrier is nothing on a simulated
    /// machine.
    pub fn persists(&self) -> bool {
        let Callee(name) = self;
        name.starts_with("persist")
            || name.starts_with("flush")
            || matches!(name.as_str(), "drain" | "fence" | "heavy_barrier")
    }

    /// Whether it stores one word.
    pub fn stores(&self) -> bool {
        matches!(self.0.as_str(), "store" | "write_private")
    }
}

/// Whether a statement ends with a semicolon.
pub fn has_end(statement: &Stmt) -> bool {
    matches!(statement, Stmt::Expr(_, Some(_)))
}

/// Whether what stands before a statement may be moved behind it.
pub fn may_come_before(statement: &Stmt, is_last: bool) -> bool {
    match statement {
        Stmt::Local(_) => true,
        Stmt::Expr(Expr::Return(_) | Expr::Break(_) | Expr::Continue(_), _) => false,
        Stmt::Expr(_, end) => end.is_some() || !is_last,
        _ => false,
    }
}

/// The weaker orderings instead of one, in a call of this name. A fence that orders nothing is none.
pub fn weaker(order: &str, call: &str) -> &'static [&'static str] {
    match (order, call) {
        ("Release" | "Acquire", "fence") => &[],
        ("Release" | "Acquire", _) => &["Relaxed"],
        ("AcqRel", _) => &["Release", "Acquire"],
        ("SeqCst", "load") => &["Acquire"],
        ("SeqCst", "store") => &["Release"],
        ("SeqCst", _) => &["AcqRel"],
        _ => &[],
    }
}

/// Whether something is only compiled for tests.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || path.is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| {
                    let text = list.tokens.to_string();
                    text.contains("test") || text.contains("loom")
                })
    })
}

/// Whether it is what errors and debuggers print.
pub fn is_for_show(item: &ItemImpl) -> bool {
    let name = |path: &syn::Path| path.segments.last().map(|last| last.ident.to_string());
    let of = item.trait_.as_ref().and_then(|(_, path, _)| name(path));
    of.is_some_and(|name| matches!(name.as_str(), "Display" | "Debug"))
}

/// Whether a condition has a pattern.
pub fn has_let(condition: &Expr) -> bool {
    struct Search(bool);
    impl<'ast> Visit<'ast> for Search {
        fn visit_expr_let(&mut self, _: &'ast syn::ExprLet) {
            self.0 = true;
        }
        fn visit_block(&mut self, _: &'ast Block) {}
        fn visit_expr_closure(&mut self, _: &'ast syn::ExprClosure) {}
    }
    let mut search = Search(false);
    search.visit_expr(condition);
    search.0
}

/// Whether an expression is a conjunction.
pub fn is_and(expression: &Expr) -> bool {
    matches!(expression, Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)))
}

/// What a condition always is, if it is one of the build, or of a planted bug, which is not there: a call that says
/// so, or a variable of `planted`, which has its answer.
pub fn constant(condition: &Expr, planted: &[String]) -> Option<bool> {
    let constant = |condition: &Expr| constant(condition, planted);
    match condition {
        Expr::Paren(inside) => constant(&inside.expr),
        Expr::Unary(negated) if matches!(negated.op, UnOp::Not(_)) => {
            constant(&negated.expr).map(|value| !value)
        }
        Expr::Binary(both) if matches!(both.op, BinOp::And(_)) => {
            match [constant(&both.left), constant(&both.right)] {
                [Some(false), _] | [_, Some(false)] => Some(false),
                [Some(true), other] | [other, Some(true)] => other,
                _ => None,
            }
        }
        Expr::Binary(both) if matches!(both.op, BinOp::Or(_)) => {
            match [constant(&both.left), constant(&both.right)] {
                [Some(true), _] | [_, Some(true)] => Some(true),
                [Some(false), other] | [other, Some(false)] => other,
                _ => None,
            }
        }
        Expr::Path(path) => {
            let name = path.path.segments.last()?.ident.to_string();
            let is_planted = path.path.get_ident().is_some() && planted.contains(&name);
            (name == "SIMULATED" || is_planted).then_some(!is_planted)
        }
        _ => Callee::of_expression(condition).filter(|callee| callee.0 == "mutant").map(|_| false),
    }
}

/// The variable that a statement makes of the answer whether a bug is planted.
pub fn planted_by(statement: &Stmt) -> Option<String> {
    let Stmt::Local(local) = statement else { return None };
    let (Pat::Ident(name), Some(init)) = (&local.pat, &local.init) else { return None };
    (constant(&init.expr, &[]) == Some(false)).then(|| name.ident.to_string())
}

/// Whether a condition reads nothing but constants.
pub fn is_of_build(condition: &Expr) -> bool {
    struct Search(bool);
    impl<'ast> Visit<'ast> for Search {
        fn visit_expr_call(&mut self, _: &'ast syn::ExprCall) {
            self.0 = true;
        }
        fn visit_expr_method_call(&mut self, _: &'ast syn::ExprMethodCall) {
            self.0 = true;
        }
        fn visit_expr_field(&mut self, _: &'ast syn::ExprField) {
            self.0 = true;
        }
        fn visit_expr_path(&mut self, node: &'ast syn::ExprPath) {
            let is_constant = node.path.segments.last().is_some_and(|last| {
                let name = last.ident.to_string();
                name.chars().all(|c| !c.is_lowercase())
            });
            self.0 |= !is_constant;
        }
    }
    let mut search = Search(false);
    search.visit_expr(condition);
    !search.0
}

/// Whether a function of this name has no effect but speed, or what a search sees of it.
pub fn is_hint(name: &str) -> bool {
    name.contains("prefetch") || matches!(name, "mark" | "human_size")
}

/// Whether a block does nothing but ask for memory ahead, and mark that it was run.
pub fn has_only_hints(block: &Block) -> bool {
    let is_hint = |one: &Stmt| Callee::of(one).is_some_and(|callee| is_hint(&callee.0));
    !block.stmts.is_empty() && block.stmts.iter().all(is_hint)
}

/// Whether what is behind a statement is for hardware only.
pub fn ends_simulated(statement: &Stmt) -> bool {
    match statement {
        Stmt::Expr(Expr::If(branch), _) => {
            constant(&branch.cond, &[]) == Some(true) && leads_away(&branch.then_branch)
        }
        _ => false,
    }
}

/// Whether a block ends by leaving what it is in.
pub fn leads_away(block: &Block) -> bool {
    match block.stmts.last() {
        Some(Stmt::Expr(last, _)) => is_leading_away(last),
        _ => false,
    }
}

pub fn is_leading_away(expression: &Expr) -> bool {
    match expression {
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => true,
        Expr::Block(block) => leads_away(&block.block),
        _ => false,
    }
}
