//! One run on one nesting level: fibers, the driver loop, crash points.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use corosensei::Yielder;

use super::config::{Config, CrashConfig, SchedulerKind};
use super::core::{Core, Mode, Request};
use super::current;
use super::end::End;
use super::failure::FailureKind;
use super::fibers::Fibers;
use super::history::{Monitor, Reply};
use super::images::{Cut, Images};
use super::memo::Contents;
use super::panics;
use super::program::Program;
use super::random::mix;
use super::report::NESTED_LEVELS;
use super::runner::{Runner, Scenario};
use super::scheduler::Scheduler;
use super::state::State;

/// In one of so many lives after a crash the other threads take part in the recovery.
const SHARED_ONE_IN: u64 = 3;
/// What makes that choice one of its own.
const SHARED: u64 = 0x6865_6C70;

type Verdict = Result<(), (FailureKind, String)>;

/// How a run begins.
pub(super) struct Start {
    pub seed: u64,
    pub scheduler: Scheduler,
    /// The contents of the crash image the run begins with, already in the level's memory and to be
    /// recovered inside the simulation; none for the formatted pool.
    pub image: Option<Contents>,
}

/// How a run ended.
pub(super) struct Ending {
    pub result: Verdict,
    pub scheduler: Scheduler,
}

/// What the fibers of a run share.
struct Context<P: Program> {
    scenario: Rc<Scenario<P>>,
    core: Rc<Core>,
    monitor: RefCell<Monitor>,
    /// The judge of crashes, where some answers do not bind them ([`Program::binds_crashes`],
    /// [`Program::defers`]).
    durable: Option<RefCell<Monitor>>,
    instance: OnceCell<P::Instance>,
    /// Threads that have not done all their operations yet.
    busy: Cell<usize>,
    run: u64,
    seed: u64,
    crash_points: Cell<u64>,
}

impl<P: Program + 'static> Runner<P> {
    /// Runs one schedule on `level`.
    pub(super) fn run_level(&mut self, level: usize, start: Start) -> Ending {
        let core = Rc::clone(&self.cores[level]);
        let _current = current::enter(&core);
        core.mode.set(Mode::Track);
        self.runs += 1;
        let initial = start.image.as_ref().unwrap_or(&self.initial);
        let context = Context {
            scenario: Rc::clone(&self.scenario),
            monitor: RefCell::new(Monitor::new(initial)),
            durable: self.scenario.forgets(self.config.domain).then(|| {
                let defers = self.scenario.program.defers();
                let judge = if defers { Monitor::deferring } else { Monitor::new };
                RefCell::new(judge(initial))
            }),
            instance: OnceCell::new(),
            busy: Cell::new(self.scenario.plan.len()),
            run: self.runs,
            seed: start.seed,
            crash_points: Cell::new(0),
            core: Rc::clone(&core),
        };
        self.reset(&core, &start);
        core.state.borrow_mut().scheduler = start.scheduler;
        let open_inside = start.image.is_some() || self.config.simulate_open;
        let mut result = if open_inside { Ok(()) } else { context.open_plainly() };
        if result.is_ok() {
            result = self.drive(level, &context, open_inside);
        }
        core.mode.set(Mode::Track);
        if result.is_ok() && level == 0 {
            result = self.check_for_bypass(&core);
        }
        let abandoned = core.state.borrow().threads.iter().any(|thread| thread.abandoned);
        if result.is_ok() && !abandoned {
            result = context.check_contents();
        }
        if result.is_err() || abandoned {
            // Its invariants may not hold: no destructor may walk it.
            std::mem::forget(context.instance);
        } else {
            // What the sessions' ends and the close have freed is judged too, and what they have not.
            result = context.give_back();
        }
        let scheduler =
            std::mem::replace(&mut core.state.borrow_mut().scheduler, Scheduler::replay(vec![]));
        Ending { result, scheduler }
    }

    /// Memory and state as at the start of a schedule.
    fn reset(&self, core: &Core, start: &Start) {
        let state = &mut *core.state.borrow_mut();
        if start.image.is_none() {
            state.persistence.restore(state.space.region());
        }
        state.space.reset();
        state.begin(self.scenario.plan.len(), start.seed);
        if start.image.is_some() || self.config.simulate_open {
            state.threads[1..].iter_mut().for_each(|thread| thread.held = true);
        }
    }

    /// Resumes fibers until all have ended or one failed.
    fn drive(&mut self, level: usize, context: &Context<P>, open_inside: bool) -> Verdict {
        let core = &*context.core;
        let mut fibers = Fibers::default();
        for thread in 0..self.scenario.plan.len() {
            let address: *const Context<P> = context;
            let stack = self.stacks.spawn(&mut fibers, move |yielder: &Yielder<(), ()>| {
                // SAFETY: the fibers are ended or abandoned before this function returns, and the
                // context outlives it.
                let context = unsafe { &*address };
                context.core.set_yielder(thread, yielder);
                let body = || context.body(thread, open_inside && thread == 0);
                if let Err(message) = panics::catch(body) {
                    context.core.fail(FailureKind::Panic, format!("T{thread} {message}"));
                }
            });
            core.set_stack(thread, stack);
        }
        core.mode.set(Mode::Run);
        core.dying.set(false);
        core.opening.set(open_inside);
        core.shared.forget();
        core.shares_opening
            .set(level > 0 && mix(context.seed ^ SHARED).is_multiple_of(SHARED_ONE_IN));
        let result = self.resume_all(level, context, &mut fibers);
        core.mode.set(Mode::Track);
        self.stacks.reclaim(fibers);
        result
    }

    fn resume_all(&mut self, level: usize, context: &Context<P>, fibers: &mut Fibers) -> Verdict {
        let core = &*context.core;
        let mut next = core.state.borrow_mut().decide_first();
        loop {
            core.set_fiber(next);
            let ended = fibers.resume(&mut self.stacks, next);
            if let Some(failure) = core.state.borrow_mut().failure.take() {
                return Err(failure);
            }
            if ended && core.state.borrow().all_done() {
                return self.check_crash(level, context);
            }
            match core.request.get() {
                Request::Switch => next = core.state.borrow().next,
                Request::CrashPoint => self.check_crash(level, context)?,
                Request::Stop => return self.check_crash(level, context),
            }
        }
    }

    /// Checks the images of a crash at this point of the run.
    fn check_crash(&mut self, level: usize, context: &Context<P>) -> Verdict {
        // A life after a crash that came too late to be afforded goes on, without further crashes.
        let is_spent = level > 0 && self.work() >= self.config.work_limit;
        if !self.config.crash.enabled || is_spent {
            return Ok(());
        }
        if context.core.was_killed.get() && context.core.opening.get() {
            // What the dead process had begun may go or stay until opening has made durable what it found.
            return Ok(());
        }
        self.counts.crash_points += 1;
        context.crash_points.set(context.crash_points.get() + 1);
        let mut images = self.spare_images.pop().unwrap_or_default();
        images.collect(&context.core.state.borrow());
        let seed = context.seed ^ mix(context.crash_points.get());
        let result = images.visit(self.config.crash.budget, seed, |hash, cut| {
            self.check_image(level, context, &images, hash, cut)
        });
        let result = result.and_then(|()| self.check_kill(level, context, &images));
        self.spare_images.push(images);
        result
    }

    /// Lets the process die here, if this death is tried.
    fn check_kill(&mut self, level: usize, context: &Context<P>, images: &Images) -> Verdict {
        let chosen = self.choose_kill(level, &context.core.state.borrow(), images);
        let Some((hash, cut)) = chosen else { return Ok(()) };
        if self.memo.find(hash).is_none() {
            self.recover(context, images, hash, &cut);
        }
        self.run_nested(level, context, images, hash, &cut, End::Killed)
    }

    #[inline]
    fn check_image(
        &mut self,
        level: usize,
        context: &Context<P>,
        images: &Images,
        hash: u64,
        cut: &Cut,
    ) -> Verdict {
        self.counts.images += 1;
        let outcome = match self.memo.find(hash) {
            Some(known) => known,
            None => self.meet(level, context, images, hash, cut)?,
        };
        self.memo.set_moment(context.run, context.durable().borrow().epoch());
        let moment = self.memo.moment();
        let outcome = self.memo.outcome(outcome);
        if outcome.judged == moment {
            return Ok(());
        }
        let described = || {
            let state = context.core.state.borrow();
            format!("crash at step {}: {}", state.steps, images.describe(&state, cut))
        };
        match &outcome.result {
            Err(message) => Err((FailureKind::Recovery, format!("{message}; {}", described()))),
            Ok(contents) => match context.durable().borrow_mut().admits(contents) {
                Err(violation) => {
                    Err((FailureKind::NotDurable, format!("{violation}; {}", described())))
                }
                Ok(()) => {
                    outcome.judged = moment;
                    Ok(())
                }
            },
        }
    }

    /// Recovers an image that is not known; now and then also inside the simulation.
    fn meet(
        &mut self,
        level: usize,
        context: &Context<P>,
        images: &Images,
        hash: u64,
        cut: &Cut,
    ) -> Result<u32, (FailureKind, String)> {
        let outcome = self.recover(context, images, hash, cut);
        let CrashConfig { nested_one_in, nested_depth, .. } = self.config.crash;
        let is_chosen =
            nested_one_in > 0 && mix(hash ^ self.config.seed).is_multiple_of(nested_one_in);
        // Lives multiply: one schedule of them could cost more than all that was asked for.
        if level >= nested_depth || !is_chosen || self.work() >= self.config.work_limit {
            return Ok(outcome);
        }
        self.run_nested(level, context, images, hash, cut, End::PowerCut)?;
        // The nested run may have filled the memo, which then forgot this image too.
        Ok(self.memo.find(hash).unwrap_or_else(|| self.recover(context, images, hash, cut)))
    }

    /// Recovers an image at full speed and remembers the outcome.
    fn recover(&mut self, context: &Context<P>, images: &Images, hash: u64, cut: &Cut) -> u32 {
        self.counts.recoveries += 1;
        let core = &*context.core;
        images.build(&mut core.state.borrow_mut(), cut);
        let mode = core.mode.replace(Mode::Recover);
        core.be_patient();
        let memory = core.image_memory();
        let program = &self.scenario.program;
        let result = panics::catch(|| {
            let instance = program.open(memory)?;
            let contents = program.contents(&instance);
            if contents.is_err() {
                std::mem::forget(instance);
            }
            contents
        });
        core.mode.set(mode);
        core.free_lent();
        core.state.borrow_mut().persistence.shadow.roll_back();
        let result = result.unwrap_or_else(Err);
        self.memo.learn(hash, result)
    }

    /// Recovers an image inside the simulation, with crash points, and lets the plan run on it.
    fn run_nested(
        &mut self,
        level: usize,
        context: &Context<P>,
        images: &Images,
        hash: u64,
        cut: &Cut,
        end: End,
    ) -> Verdict {
        let Some(number) = self.memo.find(hash) else { return Ok(()) };
        let Ok(contents) = self.memo.outcome(number).result.clone() else { return Ok(()) };
        if self.cores.len() == level + 1 {
            let size = self.scenario.program.pool_bytes();
            let (abandon, fail_allocation, fail_space) = (None, None, None);
            let config = Config { abandon, fail_allocation, fail_space, ..self.config.clone() };
            let core = Core::new(config, size);
            core.wall_clock_ms.set(self.scenario.program.wall_clock_ms());
            self.cores.push(Rc::new(core));
        }
        {
            let state = &mut *context.core.state.borrow_mut();
            let core = &self.cores[level + 1];
            core.was_killed.set(end == End::Killed);
            let State { persistence, space, .. } = &mut *core.state.borrow_mut();
            if end == End::PowerCut {
                images.build(state, cut);
            }
            persistence.load(state.persistence.shadow.region(), space.region());
            if end == End::Killed {
                persistence.follow(&state.persistence, space.region());
            }
            state.persistence.shadow.roll_back();
        }
        self.counts.nested_runs += 1;
        self.counts.nested_at[level.min(NESTED_LEVELS - 1)] += 1;
        let seed = mix(hash ^ context.seed);
        let scheduler = Scheduler::start(SchedulerKind::Mixed, seed, 100, None);
        let ending = self.run_level(level + 1, Start { seed, scheduler, image: Some(contents) });
        ending.result.map_err(|(kind, message)| {
            let state = context.core.state.borrow();
            let lost = images.describe(&state, cut);
            let step = state.steps;
            (kind, format!("in the life after {} at step {step} ({lost}): {message}", end.name()))
        })
    }
}

impl<P: Program + 'static> Context<P> {
    /// Opens the formatted pool at full speed; what it did is durable.
    fn open_plainly(&self) -> Verdict {
        let memory = self.core.memory();
        self.core.be_patient();
        let opened = panics::catch(|| {
            let instance = self.scenario.program.open(memory)?;
            self.scenario.program.warm_up(&instance);
            Ok(instance)
        });
        let instance =
            opened.and_then(|result| result).map_err(|text| (FailureKind::Recovery, text))?;
        let _ = self.instance.set(instance);
        let state = &mut *self.core.state.borrow_mut();
        state.persistence.make_all_durable(state.space.region());
        Ok(())
    }

    /// The judge of crashes.
    fn durable(&self) -> &RefCell<Monitor> {
        self.durable.as_ref().unwrap_or(&self.monitor)
    }

    /// What a logical thread does.
    fn body(&self, thread: usize, open: bool) {
        let core = &*self.core;
        if !open && core.opening.get() {
            core.help_to_open(thread);
        }
        if open {
            match self.scenario.program.open(core.memory()) {
                Err(message) => core.fail(FailureKind::Recovery, message),
                Ok(instance) => {
                    let _ = self.instance.set(instance);
                }
            }
            core.opening.set(false);
            if let Some(races) = &mut core.state.borrow_mut().races {
                races.start_others();
            }
            core.state.borrow_mut().threads.iter_mut().for_each(|thread| thread.held = false);
        }
        let instance = self.instance.get().expect("opened before any other thread may start");
        let (mut calls, mut replies) = (Vec::new(), Vec::new());
        for operation in &self.scenario.plan[thread] {
            core.point();
            core.call();
            calls.clear();
            self.scenario.program.calls(operation, &mut calls);
            self.monitor.borrow_mut().invoke(thread, &calls);
            if let Some(durable) = &self.durable {
                durable.borrow_mut().invoke(thread, &calls);
                if self.scenario.program.persists_deferred(operation) {
                    durable.borrow_mut().begin_persisting(thread);
                }
            }
            self.tell(|| format!("CALL     {operation:?}"));
            replies.clear();
            self.scenario.program.run(instance, thread, operation, &mut replies);
            core.give_answer();
            self.tell(|| format!("RETURN   {operation:?} = {replies:?}"));
            let responded = self.monitor.borrow_mut().respond(thread, &replies);
            if let Err(violation) = responded {
                core.fail(FailureKind::NotLinearizable, violation.to_string());
            }
            if let Some(durable) = &self.durable {
                if !self.scenario.program.binds_crashes(operation, core.memory().domain()) {
                    replies.fill(Reply::Unknown);
                }
                if let Err(violation) = durable.borrow_mut().respond(thread, &replies) {
                    core.fail(FailureKind::NotLinearizable, violation.to_string());
                }
                if self.scenario.program.persists_deferred(operation) {
                    durable.borrow_mut().end_persisting(thread);
                }
            }
            core.crash_point_at_return();
        }
        self.busy.set(self.busy.get() - 1);
        if self.busy.get() == 0 && self.scenario.program.defers() {
            self.close(thread, instance);
        }
        core.finish();
    }

    /// Closes the structure when all operations are done: from then on a crash takes nothing back.
    fn close(&self, thread: usize, instance: &P::Instance) {
        let core = &*self.core;
        // The thread that closes has waited for the others to end: their stores have come.
        (0..self.scenario.plan.len()).for_each(|other| core.drain_buffer(other));
        core.call();
        self.durable().borrow_mut().begin_persisting(thread);
        self.tell(|| "CLOSE".to_string());
        match self.scenario.program.close(instance) {
            Err(text) => core.fail(FailureKind::Recovery, format!("at the close: {text}")),
            Ok(false) => {}
            Ok(true) => {
                self.durable().borrow_mut().end_persisting(thread);
                self.tell(|| "CLOSED".to_string());
                core.crash_point_at_return();
            }
        }
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        let mut state = self.core.state.borrow_mut();
        if state.trace.is_some() {
            state.tell(text());
        }
    }

    /// After all of it: nothing is left, and nothing was freed that had to stay.
    fn give_back(self) -> Verdict {
        let Context { scenario, core, instance, .. } = self;
        let Some(instance) = instance.into_inner() else { return Ok(()) };
        core.be_patient();
        let given =
            panics::catch(|| scenario.program.give_back(instance)).and_then(|result| result);
        let mut state = core.state.borrow_mut();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        match given {
            Err(text) => Err((FailureKind::Leak, format!("at the end: {text}"))),
            Ok(true) => state.find_leak().map_or(Ok(()), |text| Err((FailureKind::Leak, text))),
            Ok(false) => Ok(()),
        }
    }

    /// After the run: the structure is whole and holds what the history explains.
    fn check_contents(&self) -> Verdict {
        let Some(instance) = self.instance.get() else { return Ok(()) };
        self.core.be_patient();
        let contents = panics::catch(|| self.scenario.program.contents(instance))
            .and_then(|result| result)
            .map_err(|text| (FailureKind::Recovery, format!("after the run: {text}")))?;
        self.monitor
            .borrow_mut()
            .admits(&contents)
            .map_err(|text| (FailureKind::NotLinearizable, format!("after the run: {text}")))
    }
}
