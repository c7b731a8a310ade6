//! The CPUs of the threads, and the walk that times a dependent miss.

use std::thread;

use everleaf_machine::topology;

use crate::calibrate::Chase;

/// What every measurement needs of the machine.
pub(crate) struct Instruments {
    /// The CPUs of the threads, in turn.
    pub cpus: Vec<usize>,
    chase: Chase,
}

impl Instruments {
    /// `miss_region`: bytes of the memory that is walked to time a dependent miss.
    pub fn new(miss_region: usize) -> Self {
        Instruments { cpus: topology::allowed_cpus(), chase: Chase::new(miss_region) }
    }

    /// The CPU of a thread.
    pub fn cpu(&self, thread: usize) -> usize {
        self.cpus[thread % self.cpus.len()]
    }

    /// Nanoseconds of a dependent miss, on the first CPU.
    pub fn miss_ns(&mut self) -> f64 {
        let (cpu, chase) = (self.cpus[0], &mut self.chase);
        let walk = || {
            // Where the system refuses, the walk is where the system puts it.
            let _ = topology::pin_current_thread(cpu);
            chase.measure()
        };
        thread::scope(|scope| scope.spawn(walk).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
