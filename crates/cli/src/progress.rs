//! A progress bar on the standard error: only for a person, never in a log or a pipe.

use std::fmt::Write;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

/// The progress of one long command; does nothing when switched off.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar over `total` bytes; with an unknown total, a count that runs. Off unless `enabled`.
    pub fn bytes(enabled: bool, what: &'static str, total: Option<u64>) -> Self {
        let template = match total {
            Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes} {size_rate} {eta}",
            None => "{msg} {spinner} {bytes} {size_rate}",
        };
        Self::with(enabled, what, total, template)
    }

    /// A bar over `total` pairs. Off unless `enabled`.
    pub fn pairs(enabled: bool, what: &'static str, total: u64) -> Self {
        let template = "{msg} {wide_bar} {human_pos}/{human_len} {rate} {eta}";
        Self::with(enabled, what, Some(total), template)
    }

    /// A count of pairs that runs. Off unless `enabled`.
    pub fn count(enabled: bool, what: &'static str) -> Self {
        Self::with(enabled, what, None, "{msg} {spinner} {human_pos} {rate}")
    }

    fn with(enabled: bool, what: &'static str, total: Option<u64>, template: &str) -> Self {
        if !enabled {
            return Self { bar: None };
        }
        let style = ProgressStyle::with_template(template)
            .expect("the templates above are constant and tested")
            .progress_chars("=> ")
            .with_key("rate", |state: &ProgressState, text: &mut dyn Write| {
                let _ = text.write_str(&rate(state.per_sec()));
            })
            .with_key("size_rate", |state: &ProgressState, text: &mut dyn Write| {
                let _ = text.write_str(&size_rate(state.per_sec()));
            });
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        Self { bar: Some(bar.with_style(style).with_message(what)) }
    }

    /// How far the work has come, in the unit of the total.
    pub fn set(&self, position: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(position);
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The bar disappears; the command's own last line says what was done.
impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A rate without decimals, which change too fast to be read.
fn rate(per_second: f64) -> String {
    format!("{}/s", HumanCount(per_second as u64))
}

/// The same of bytes, in the largest unit of which there are ten.
fn size_rate(bytes_per_second: f64) -> String {
    const UNITS: [(u32, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let bytes = bytes_per_second as u64;
    let unit = UNITS.into_iter().find(|(shift, _)| bytes >> shift >= 10);
    let (shift, name) = unit.unwrap_or((0, "bytes"));
    format!("{} {name}/s", bytes >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_no_decimals() {
        assert_eq!(rate(0.4), "0/s");
        assert_eq!(rate(1_234_567.89), "1,234,567/s");
        assert_eq!(size_rate(0.4), "0 bytes/s");
        assert_eq!(size_rate(9.99 * 1024.0), "10229 bytes/s");
        assert_eq!(size_rate(20_345_678.9), "19 MiB/s");
        assert_eq!(size_rate(1.9 * 1024.0 * 1024.0), "1945 KiB/s");
    }

    #[test]
    fn every_template_is_valid_and_a_disabled_bar_does_nothing() {
        for bar in [
            Progress::bytes(true, "loading", Some(10)),
            Progress::bytes(true, "loading", None),
            Progress::pairs(true, "exporting", 10),
        ] {
            assert!(bar.bar.is_some());
            bar.set(5);
            assert_eq!(bar.bar.as_ref().map(ProgressBar::position), Some(5));
        }
        assert!(Progress::pairs(false, "exporting", 10).bar.is_none());
    }
}
