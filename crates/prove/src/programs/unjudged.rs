//! Threads on a tree whose protocol promises something to one thread at a time only: what they answer is not judged,
//! nor what is in the tree then, nor a crash. What is left to be judged is what becomes of memory and of the space in
//! the pool: whether a thread touches what was freed, or frees twice, and what has leaked when all is given back.
//!
//! ```text
//!   beside/random/SLOTS/NUMBER    beside/tiny/..
//! ```

use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Config, CrashConfig, Memory, Plan, Program};

use crate::case::step::Step;
use crate::case::{Case, PlannedCase};
use crate::machine::space::Space;
use crate::programs::plans;
use crate::programs::tiny::Tiny;
use crate::tree::living::AnyTree;
use crate::tree::operation::Operation;
use crate::tree::u64_program::{Opened, U64Program};

/// What the names of these programs begin with.
const BESIDE: &str = "beside/";

/// The same program, of which only its memory and its space are judged.
#[derive(Clone)]
struct Unjudged(U64Program);

/// The case of a name; `of_slots` gives the tree with so many slots.
pub(crate) fn case(
    name: &str,
    of_slots: impl Fn(usize) -> &'static AnyTree,
) -> Option<Box<dyn Case>> {
    let name = name.strip_prefix(BESIDE)?;
    let (mut program, mut plan) = match Tiny::from_name(name) {
        Some(tiny) => tiny.numbers(of_slots(tiny.slots)),
        None => {
            let (slots, number) = name.strip_prefix("random/")?.split_once('/')?;
            let slots = slots.parse().ok()?;
            plans::random_on(of_slots(slots), number.parse().ok()?, slots)
        }
    };
    // A thread that loses a race has made a copy for nothing: several may need more at once than there is.
    program.space.may_fill = true;
    plan.iter_mut().flatten().for_each(|one| *one = without_judge(one));
    let plan: Plan<Operation> = plan;
    Some(PlannedCase::boxed((Unjudged(program), plan)))
}

/// The step that does the same, and judges only that.
pub(crate) fn step(step: Step) -> Step {
    // No crash is judged; nothing is refused, and nobody stops for ever.
    let crash = CrashConfig { enabled: false, ..step.config.crash };
    let (abandon, fail_allocation) = (None, None);
    let config = Config { crash, simulate_open: false, abandon, fail_allocation, ..step.config };
    Step { program: format!("{BESIDE}{}", step.program), config, ..step }
}

/// The operation, or another if what it gives is judged where it is made.
fn without_judge(operation: &Operation) -> Operation {
    match *operation {
        Operation::Scan(from, _) | Operation::ScanBack(from, _) => Operation::Get(from),
        Operation::Exchange(key, _, new) => Operation::Update(key, new),
        Operation::Range(_) | Operation::WriteMany(_) => Operation::GetMany,
        ref other => other.clone(),
    }
}

impl Program for Unjudged {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        self.0.pool_bytes()
    }

    fn format(&self, memory: Memory) {
        self.0.format(memory);
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        self.0.open(memory)
    }

    fn warm_up(&self, opened: &Opened) {
        self.0.warm_up(opened);
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        opened.end_sessions();
        Ok(vec![])
    }

    fn give_back(&self, opened: Opened) -> Result<bool, String> {
        // Nor whether it can be emptied.
        let space = Space { may_fill: false, ..self.0.space };
        U64Program { space, ..self.0.clone() }.give_back(opened)
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn calls(&self, _operation: &Operation, _calls: &mut Vec<(u64, Call)>) {}

    fn run(
        &self,
        opened: &Opened,
        thread: usize,
        operation: &Operation,
        _replies: &mut Vec<Reply>,
    ) {
        self.0.run(opened, thread, operation, &mut vec![]);
    }
}
