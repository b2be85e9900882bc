//! The screens, and the set of screens that a key is for.

/// The screens, in the order of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Screen {
    /// Is it healthy, and if not, where.
    #[default]
    Overview,
    /// The table of queue pairs.
    Qps,
    /// One queue pair, both directions.
    Detail,
    /// Traffic between hosts, host by host.
    Matrix,
    /// Links, balance, entropy, what hashing would do.
    Links,
    /// Load in bins of a millisecond.
    Bursts,
    /// Events, packet by packet.
    Events,
    /// Conclusions, and what cannot be seen.
    Findings,
    /// One finding with everything known about it. It has no tab: a finding is opened from a list.
    Problem,
    /// Queue pairs as NIC and kernel know them, without packets. It shares the tab of the queue pairs.
    Nic,
}

impl Screen {
    /// Every screen with a tab.
    pub const TABS: [Self; 8] = [
        Self::Overview,
        Self::Qps,
        Self::Detail,
        Self::Matrix,
        Self::Links,
        Self::Bursts,
        Self::Events,
        Self::Findings,
    ];

    /// Every screen.
    pub(in crate::tui) fn all() -> impl Iterator<Item = Self> {
        Self::TABS.into_iter().chain([Self::Problem, Self::Nic])
    }

    /// Title of the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Qps => "QPs",
            Self::Detail => "Detail",
            Self::Matrix => "Matrix",
            Self::Links => "Links",
            Self::Bursts => "Bursts",
            Self::Events => "Events",
            Self::Findings => "Findings",
            Self::Problem => "Problem",
            Self::Nic => "NIC",
        }
    }

    /// Its name on the command line and in the configuration file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Qps => "qps",
            Self::Detail => "detail",
            Self::Matrix => "matrix",
            Self::Links => "links",
            Self::Bursts => "bursts",
            Self::Events => "events",
            Self::Findings => "findings",
            Self::Problem => "problem",
            Self::Nic => "nic",
        }
    }

    /// The screen of this name or number from 1.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let number = name.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        number
            .and_then(|n| Self::TABS.get(n).copied())
            .or_else(|| Self::TABS.into_iter().find(|screen| screen.name() == name))
    }

    /// The tab `steps` to the right, and round to the first again.
    #[must_use]
    pub fn turn(self, steps: usize) -> Self {
        Self::TABS.into_iter().cycle().nth(self as usize + steps).unwrap_or_default()
    }

    /// A set of this one.
    pub const fn only(self) -> Screens {
        Screens(1 << self as u8)
    }
}

/// A set of screens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screens(u16);

impl Screens {
    /// Set of all screens.
    pub const ALL: Self = Self(0x3FF);

    /// These two sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if a screen is in it.
    pub const fn has(self, screen: Screen) -> bool {
        self.0 & (1 << screen as u8) != 0
    }

    /// True if the sets have a screen in common.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Screen;

    #[test]
    fn names_and_numbers() {
        for (number, screen) in (1..).zip(Screen::TABS) {
            assert_eq!(Screen::from_name(screen.name()), Some(screen));
            assert_eq!(Screen::from_name(&format!("{number}")), Some(screen));
            assert!(screen.only().has(screen) && !screen.only().has(screen.turn(1)));
        }
        assert_eq!(Screen::Findings.turn(1), Screen::Overview);
        assert_eq!(Screen::Overview.turn(7), Screen::Findings);
        for wrong in ["", "0", "9", "flows"] {
            assert_eq!(Screen::from_name(wrong), None);
        }
    }
}
