//! The ratchet: debt that is known may stay for now, may shrink, and may never grow.
//!
//! `xtask/ratchet.txt` has one line per rule and file: `rule path amount`. A finding within its
//! amount is silent. `cargo xtask tidy --update` lowers amounts to what is left; raising one takes
//! an edit by hand, which a reviewer sees.

use std::collections::BTreeMap;

/// Known debt: the amount for each rule and path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ratchet {
    amounts: BTreeMap<(String, String), usize>,
}

impl Ratchet {
    /// Reads the file's text; `#` starts a comment line.
    ///
    /// # Errors
    /// A sentence with the number of the first line that is not `rule path amount`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut amounts = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() || line.starts_with('#') {
                continue;
            }
            let amount = match words[..] {
                [_, _, amount] => amount.parse().ok(),
                _ => None,
            };
            let Some(amount) = amount else {
                return Err(format!(
                    "line {} of the ratchet is not `rule path amount`: {line}",
                    index + 1
                ));
            };
            amounts.insert((words[0].to_string(), words[1].to_string()), amount);
        }
        Ok(Ratchet { amounts })
    }

    /// The debt allowed for a rule in a file.
    pub fn allowed(&self, rule: &str, path: &str) -> usize {
        self.amounts.get(&(rule.to_string(), path.to_string())).copied().unwrap_or(0)
    }

    /// Each entry that allows more than there is: rule, path, allowed, present.
    pub fn slack(
        &self,
        present: &BTreeMap<(String, String), usize>,
    ) -> Vec<(String, String, usize, usize)> {
        let mut slack = Vec::new();
        for ((rule, path), &allowed) in &self.amounts {
            let now = present.get(&(rule.clone(), path.clone())).copied().unwrap_or(0);
            if now < allowed {
                slack.push((rule.clone(), path.clone(), allowed, now));
            }
        }
        slack
    }

    /// The same ratchet with every amount lowered to what is present; never raised.
    pub fn lowered(&self, present: &BTreeMap<(String, String), usize>) -> Self {
        let mut amounts = BTreeMap::new();
        for (key, &allowed) in &self.amounts {
            let now = present.get(key).copied().unwrap_or(0).min(allowed);
            if now > 0 {
                amounts.insert(key.clone(), now);
            }
        }
        Ratchet { amounts }
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut text = String::from(
            "# Known debt: `rule path amount`. It may shrink (cargo xtask tidy --update), never grow.\n",
        );
        for ((rule, path), amount) in &self.amounts {
            text.push_str(&format!("{rule} {path} {amount}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(rule: &str, path: &str) -> (String, String) {
        (rule.to_string(), path.to_string())
    }

    #[test]
    fn amounts_are_lowered_and_never_raised() {
        let ratchet = Ratchet::parse("# debt\nlength a.rs 650\nlength b.rs 700\n\n").unwrap();
        assert_eq!(ratchet.allowed("length", "a.rs"), 650);
        assert_eq!(ratchet.allowed("length", "c.rs"), 0);
        let present = BTreeMap::from([(key("length", "a.rs"), 640), (key("length", "b.rs"), 720)]);
        assert_eq!(ratchet.slack(&present), [("length".to_string(), "a.rs".to_string(), 650, 640)]);
        let lowered = ratchet.lowered(&present);
        assert_eq!(lowered.allowed("length", "a.rs"), 640);
        assert_eq!(lowered.allowed("length", "b.rs"), 700);
        assert_eq!(Ratchet::parse(&lowered.to_text()).unwrap(), lowered);
    }

    #[test]
    fn a_malformed_line_is_named() {
        assert!(Ratchet::parse("length a.rs\n").unwrap_err().contains("line 1"));
        assert!(Ratchet::parse("\nlength a.rs x\n").unwrap_err().contains("line 2"));
    }
}
