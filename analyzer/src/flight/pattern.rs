//! A pattern of finding ids that trigger dumps: ids with `*`, separated by `|`.

use std::fmt;
use std::str::FromStr;

use crate::findings;

/// Patterns of finding ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern(Vec<String>);

impl Pattern {
    /// True if an id matches.
    pub fn matches(&self, id: &str) -> bool {
        self.0.iter().any(|one| fits(one, id))
    }
}

/// True if `text` matches `pattern`, in which `*` stands for any characters.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    (0..=text.len()).filter_map(|at| text.get(at..)).any(|tail| fits(rest, tail))
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all: Vec<String> = text.split('|').map(|one| one.trim().to_owned()).collect();
        for one in &all {
            if !findings::entries().any(|entry| fits(one, entry.id)) {
                let (family, all) =
                    one.strip_suffix(".*").map_or((one.as_str(), ""), |family| (family, ".*"));
                let meant = findings::similar(family);
                let hint = meant.map_or_else(String::new, |id| format!(" (did you mean '{id}{all}'?)"));
                return Err(format!("no finding is called '{one}'{hint}; rocescope explain lists them"));
            }
        }
        Ok(Self(all))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_matched() {
        let pattern: Pattern = "loss.*| pfc.storm|qp.died".parse().unwrap();
        assert!(
            ["loss.before_tap", "loss.between_taps", "pfc.storm", "qp.died"]
                .iter()
                .all(|id| pattern.matches(id))
        );
        assert!(["loss", "qp.died2", "pfc.paused", ""].iter().all(|id| !pattern.matches(id)));
        let all: Pattern = "*".parse().unwrap();
        assert!(all.matches("loss.before_tap"));
        assert!(fits("*.a*b", "x.aab") && fits("a*a", "aa") && !fits("a*a", "a"));
    }

    #[test]
    fn a_name_that_no_finding_has_is_refused() {
        for text in ["los.*", "", "loss.*|", "qp.dyed"] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
        let said = |text: &str| text.parse::<Pattern>().unwrap_err();
        assert!(said("los.*").contains("did you mean 'loss.*'?"), "{}", said("los.*"));
        assert!(said("qp.dyed").contains("did you mean 'qp.died'?"), "{}", said("qp.dyed"));
        assert!(!said("xyzzy").contains("did you mean"), "{}", said("xyzzy"));
    }
}
