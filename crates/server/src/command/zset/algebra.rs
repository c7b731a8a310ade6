//! Several sorted sets, or sets: `ZUNION`, `ZINTER`, `ZDIFF`, what they store, and `ZINTERCARD`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::{Scored, each, range, show};
use crate::command::context::Context;
use crate::command::copy_budget::CopyBudget;
use crate::command::integer::{integer_arg, parse_integer};
use crate::command::members::{SetOperation, count_common};
use crate::command::stage::Staged;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;
use crate::score;
use crate::types::Kind;
use crate::types::collection::Collection;
use crate::types::order::score_of;

/// What becomes of the scores of one member.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum => not_nan(a + b),
            Aggregate::Least => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Aggregate::Greatest => {
                if b > a {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// Infinities of both signs are nothing together.
fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Members with their scores.
type Scores = BTreeMap<Vec<u8>, f64>;

/// Bytes of members that are held at once.
const SIZE_MAX: usize = 512 << 20;

/// A command of the family.
struct Form {
    name: &'static str,
    operation: SetOperation,
    /// Index of the number of keys; before it lies the destination, if there is one.
    first: usize,
    counts: bool,
}

const fn form(name: &'static str, operation: SetOperation, first: usize) -> Form {
    Form { name, operation, first, counts: false }
}

/// `ZUNION count key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub fn zunion(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, &form("zunion", SetOperation::Union, 1))
}

/// `ZINTER`, as `ZUNION`
pub fn zinter(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, &form("zinter", SetOperation::Intersection, 1))
}

/// `ZDIFF count key [key ...] [WITHSCORES]`
pub fn zdiff(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, &form("zdiff", SetOperation::Difference, 1))
}

/// `ZUNIONSTORE destination` and what `ZUNION` has
pub fn zunionstore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, &form("zunionstore", SetOperation::Union, 2))
}

/// `ZINTERSTORE destination` and what `ZINTER` has
pub fn zinterstore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, &form("zinterstore", SetOperation::Intersection, 2))
}

/// `ZDIFFSTORE destination` and what `ZDIFF` has
pub fn zdiffstore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, &form("zdiffstore", SetOperation::Difference, 2))
}

/// `ZINTERCARD count key [key ...] [LIMIT limit]`
pub fn zintercard(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let form = form("zintercard", SetOperation::Intersection, 1);
    run(context, request, &Form { counts: true, ..form })
}

/// Options behind the keys.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: bool,
    limit: u64,
}

impl Options {
    fn parse(form: &Form, request: &Request<'_>, key_count: usize) -> Result<Self> {
        let mut options = Options {
            weights: vec![1.0; key_count],
            aggregate: Aggregate::Sum,
            scores: false,
            limit: 0,
        };
        let combines = form.operation != SetOperation::Difference && !form.counts;
        let mut index = form.first + 1 + key_count;
        while let Some(option) = request.get(index) {
            let rest = request.len() - index - 1;
            match option.to_ascii_lowercase().as_slice() {
                b"weights" if combines && rest >= key_count => {
                    let args = request.args_from(index + 1);
                    for (weight, arg) in options.weights.iter_mut().zip(args) {
                        *weight = score::parse(arg)
                            .ok_or(Failure::text("ERR weight value is not a float"))?;
                    }
                    index += key_count;
                }
                b"aggregate" if combines && rest >= 1 => {
                    options.aggregate = match request.arg(index + 1).to_ascii_lowercase().as_slice()
                    {
                        b"sum" => Aggregate::Sum,
                        b"min" => Aggregate::Least,
                        b"max" => Aggregate::Greatest,
                        _ => return Err(Failure::Syntax),
                    };
                    index += 1;
                }
                b"withscores" if form.first == 1 && !form.counts => options.scores = true,
                b"limit" if form.counts && rest >= 1 => {
                    options.limit = parse_integer(request.arg(index + 1))
                        .and_then(|limit| u64::try_from(limit).ok())
                        .ok_or(Failure::text("ERR LIMIT can't be negative"))?;
                    index += 1;
                }
                _ => return Err(Failure::Syntax),
            }
            index += 1;
        }
        Ok(options)
    }
}

fn run(context: &mut Context<'_>, request: &Request<'_>, form: &Form) -> CommandResult {
    let key_count = integer_arg(request.arg(form.first))?;
    if key_count < 1 {
        let name = form.name;
        return Err(Failure::text(format!(
            "ERR at least 1 input key is needed for '{name}' command"
        )));
    }
    let key_count = usize::try_from(key_count).unwrap_or(usize::MAX);
    if key_count > request.len() - form.first - 1 {
        return Err(Failure::Syntax);
    }
    let keys: Vec<&[u8]> = request.args_from(form.first + 1).take(key_count).collect();
    let staged = context.keys.staged()?;
    let mut sources = Vec::with_capacity(key_count);
    for key in &keys {
        sources.push(find(staged, key)?.map_or(0, |set| set.header.count));
    }
    let options = Options::parse(form, request, key_count)?;
    let mut order: Vec<usize> = (0..key_count).collect();
    if form.operation != SetOperation::Difference {
        // Least is looked at, and sums are made, from the smallest set on.
        order.sort_by_key(|index| sources[*index]);
    }
    if form.counts {
        let kinds = [Kind::SortedSet, Kind::Set];
        let count = count_common(staged, &keys, &kinds, options.limit)?;
        context.reply.count(count);
        return Ok(());
    }
    let scores = combine(staged, &keys, &order, form.operation, &options);
    let scores = match form.first {
        2 => scores.map_err(Failure::of_what_is_stored)?,
        _ => scores?,
    };
    let mut items: Vec<Scored> = scores.into_iter().collect();
    items.sort_by(|a, b| score::code(a.1).cmp(&score::code(b.1)).then_with(|| a.0.cmp(&b.0)));
    if form.first == 2 {
        return range::store(context, request.arg(1), &items);
    }
    show(&mut context.reply, each(&items), options.scores, false)
}

/// The sorted set or set of a key.
fn find<'s, 'a>(staged: &'s mut Staged<'a>, key: &'s [u8]) -> Result<Option<Collection<'s, 'a>>> {
    Collection::find_any(staged, key, &[Kind::SortedSet, Kind::Set])
}

fn combine(
    staged: &mut Staged<'_>,
    keys: &[&[u8]],
    order: &[usize],
    operation: SetOperation,
    options: &Options,
) -> Result<Scores> {
    let (mut scores, mut budget) = (Scores::new(), CopyBudget::new(SIZE_MAX));
    for (number, &index) in order.iter().enumerate() {
        let (key, weight) = (keys[index], options.weights[index]);
        if number == 0 || operation == SetOperation::Union {
            add(staged, key, weight, options.aggregate, &mut scores, &mut budget)?;
            continue;
        }
        let mut set = find(staged, key)?;
        let mut kept = Scores::new();
        for (member, before) in scores {
            let score = match &mut set {
                Some(set) if set.header.kind == Kind::Set => set.contains(&member)?.then_some(1.0),
                Some(set) => set.score(&member)?,
                None => None,
            };
            match (operation, score) {
                (SetOperation::Difference, None) => drop(kept.insert(member, before)),
                (SetOperation::Intersection, Some(score)) => {
                    // Not a number only makes the sum nothing, as in Redis.
                    let score = score * weight;
                    kept.insert(member, options.aggregate.of(before, score));
                }
                _ => {}
            }
        }
        scores = kept;
    }
    Ok(scores)
}

/// Adds the members of a set.
fn add(
    staged: &mut Staged<'_>,
    key: &[u8],
    weight: f64,
    aggregate: Aggregate,
    scores: &mut Scores,
    budget: &mut CopyBudget,
) -> CommandResult {
    let Some(mut set) = find(staged, key)? else { return Ok(()) };
    let is_plain = set.header.kind == Kind::Set;
    set.walk(|member, value| {
        let score = not_nan(weight * if is_plain { 1.0 } else { score_of(value) });
        match scores.get_mut(member) {
            Some(before) => *before = aggregate.of(*before, score),
            None => {
                budget.take(member.len())?;
                scores.insert(member.to_vec(), score);
            }
        }
        ControlFlow::Continue(())
    })?;
    budget.check()
}
