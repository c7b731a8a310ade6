//! The row opened at once: what its places refer to is marked when somebody first comes to a place.

use everleaf_alloc::{AllocError, LateMarks, Recovery};
use everleaf_machine::{Atomic, Ordering};

use super::{M, Opened, holds_record, place};

/// What opening has left.
pub(super) struct Late {
    marks: LateMarks<M>,
    /// Of each place, whether its record is marked, or being marked: nobody changes the place before.
    touched: Vec<Atomic<u64, M>>,
}

impl Late {
    /// `owed`: of each place, whether it has a record that is not marked.
    pub fn new(recovery: Recovery<M>, owed: &[bool]) -> Self {
        let marks = LateMarks::new(recovery);
        marks.owe(owed.iter().filter(|owed| **owed).count() as u64);
        let touched = owed.iter().map(|owed| Atomic::new(u64::from(!owed))).collect();
        Late { marks, touched }
    }

    pub fn marks(&self) -> &LateMarks<M> {
        &self.marks
    }
}

impl Opened {
    /// Marks the record of a place that opening has left, unless that was done.
    pub(super) fn touch(&self, key: u64) -> Result<(), AllocError> {
        let Some(late) = &self.late else { return Ok(()) };
        let flag = &late.touched[key as usize];
        // Acquire: a thread that has touched it comes before us; pairs with the exchange below.
        if !holds_record(key) || flag.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        // Acquire: pairs with `exchange`.
        let offset = place(&self.heap, key).load(Ordering::Acquire);
        // If somebody was faster, it may be one that no mark is for.
        let mark = late.marks.recovery().record_mark(offset, 1);
        // AcqRel: one thread marks, of those that have read what was there at first.
        if flag.swap(1, Ordering::AcqRel) == 0 {
            mark?.set()?;
            late.marks.note_marked(1);
        }
        Ok(())
    }

    /// Marks the record of one place that was left, and makes what is free usable if that was the last.
    pub(super) fn touch_next(&self) -> Result<(), AllocError> {
        let Some(late) = &self.late else { return Ok(()) };
        // Relaxed: another is taken if somebody is faster.
        let is_left = |flag: &Atomic<u64, M>| flag.load(Ordering::Relaxed) == 0;
        if let Some(key) = late.touched.iter().position(is_left) {
            self.touch(key as u64)?;
        }
        late.marks.finish(&self.heap);
        Ok(())
    }

    /// Marks all that were left.
    pub(super) fn touch_all(&self) -> Result<(), String> {
        let Some(late) = &self.late else { return Ok(()) };
        for key in 0..late.touched.len() as u64 {
            self.touch(key).map_err(|error| error.to_string())?;
        }
        match late.marks.finish(&self.heap) {
            true => Ok(()),
            false => Err(format!("{} places are left", late.marks.owed())),
        }
    }
}
