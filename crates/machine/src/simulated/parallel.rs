//! Work that one thread shares with others that have nothing to do yet: the recovery of a life after a crash, which
//! [`Machine::parallel`] splits among threads.
//!
//! On hardware they are started for it and joined. Here they are the threads of the plan, which are held until the pool
//! is open. All that the starting thread did before comes before what they do, and all that they do before what it does
//! when they are joined, as it is of threads.
//!
//! [`Machine::parallel`]: crate::Machine::parallel

use std::cell::Cell;

use super::core::Core;

type Task = dyn Fn(usize) + Sync;

/// What is being shared.
#[derive(Default)]
pub struct Shared {
    task: Cell<Option<*const Task>>,
    count: Cell<usize>,
    next: Cell<usize>,
}

impl Shared {
    /// What a failed schedule left is gone.
    pub fn forget(&self) {
        self.task.set(None);
    }
}

impl Core {
    /// Runs `task` for `0..count`, with the threads that wait for the pool to be opened, if this run has some of them
    /// help; otherwise one after the other.
    pub fn parallel(&self, threads: usize, count: usize, task: &(dyn Fn(usize) + Sync)) {
        let waiting = self.state.borrow().threads.len() - 1;
        let helpers = waiting.min(threads.min(count).saturating_sub(1));
        let is_opening = self.opening.get() && self.shares_opening.get();
        if !is_opening || helpers == 0 || self.shared.task.get().is_some() {
            return (0..count).for_each(task);
        }
        // SAFETY: only the lifetime changes. Nobody runs the task behind the end of this function: it waits for the
        // helpers and takes the task away. If it is left in the middle, the schedule has failed, and no fiber goes on.
        let task: &'static Task =
            unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static Task>(task) };
        self.shared.task.set(Some(task));
        self.shared.count.set(count);
        self.shared.next.set(0);
        self.state.borrow_mut().start_helpers(helpers);
        self.take_tasks();
        self.state.borrow_mut().wait_for_helpers(true);
        while self.state.borrow().has_helpers() && !self.dying.get() {
            self.point();
        }
        self.state.borrow_mut().wait_for_helpers(false);
        self.shared.forget();
    }

    /// Takes part in what thread 0 shares out, until the pool is open. Called on the fiber of another thread, before
    /// its first operation.
    pub fn help_to_open(&self, thread: usize) {
        while self.opening.get() {
            self.take_tasks();
            self.put_late();
            self.drain_buffer(thread);
            self.state.borrow_mut().end_helper(thread);
            // Goes on when there is something to do again.
            self.point();
        }
    }

    fn take_tasks(&self) {
        let Some(task) = self.shared.task.get() else { return };
        loop {
            self.point();
            let index = self.shared.next.get();
            if index >= self.shared.count.get() {
                return;
            }
            self.shared.next.set(index + 1);
            // SAFETY: `parallel`, whose argument it is, has not returned: it waits for the thread that got here.
            let task = unsafe { &*task };
            task(index);
        }
    }
}
