//! Logical threads as fibers of the one OS thread, on pooled stacks.

use std::ops::Range;

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a fiber's stack; a guard page follows.
const STACK_BYTES: usize = 256 << 10;

type Fiber = Coroutine<(), (), (), DefaultStack>;

/// The stacks kept for the next schedule.
#[derive(Default)]
pub struct Stacks {
    free: Vec<DefaultStack>,
}

/// The fibers of one run.
#[derive(Default)]
pub struct Fibers {
    fibers: Vec<Option<Fiber>>,
}

impl Stacks {
    /// Adds a fiber that runs `body` when first resumed; gives the addresses of its stack.
    ///
    /// # Panics
    /// If the operating system has no memory for a stack.
    pub fn spawn(
        &mut self,
        fibers: &mut Fibers,
        body: impl FnOnce(&Yielder<(), ()>) + 'static,
    ) -> Range<usize> {
        let stack = self.free.pop().unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("the system maps a quarter of a megabyte")
        });
        let addresses = stack.limit().get()..stack.base().get();
        fibers.fibers.push(Some(Coroutine::with_stack(stack, move |yielder, ()| body(yielder))));
        addresses
    }

    /// Takes the stacks of all fibers back. Those that did not end are abandoned where they stand:
    /// no destructor runs, for the machine they would run on is gone.
    pub fn reclaim(&mut self, fibers: Fibers) {
        for mut fiber in fibers.fibers.into_iter().flatten() {
            if fiber.started() && !fiber.done() {
                // SAFETY: nothing on the abandoned stack is reached again: the run that owned its
                // frames is over, and what they owned is leaked.
                unsafe { fiber.force_reset() };
            }
            if fiber.done() {
                self.free.push(fiber.into_stack());
            }
        }
    }
}

impl Fibers {
    /// Runs a fiber until it suspends (false) or ends (true).
    pub fn resume(&mut self, stacks: &mut Stacks, thread: usize) -> bool {
        let fiber = self.fibers[thread].as_mut().expect("an ended fiber is not chosen again");
        match fiber.resume(()) {
            CoroutineResult::Yield(()) => false,
            CoroutineResult::Return(()) => {
                let ended = self.fibers[thread].take().expect("it was there when resumed");
                stacks.free.push(ended.into_stack());
                true
            }
        }
    }
}
