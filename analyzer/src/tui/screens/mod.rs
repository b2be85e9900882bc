//! The screens. Each owns its state, its keys, its drawing and its export.

pub mod bursts;
pub mod detail;
mod devices;
mod empty;
mod entropy;
pub mod events;
mod export_table;
mod finding_lines;
pub mod findings;
pub mod flows;
mod link_names;
pub mod links;
pub mod matrix;
pub mod nic;
pub mod overview;
pub(super) mod packet;
pub(super) mod page;
pub mod problem;
mod reverse;
pub mod timeline;
pub(super) mod trends;

use self::bursts::BurstsScreen;
use self::detail::DetailScreen;
use self::events::EventsScreen;
use self::findings::FindingsScreen;
use self::flows::table::Table;
use self::links::LinksScreen;
use self::matrix::MatrixScreen;
use self::nic::NicScreen;
use self::overview::OverviewScreen;
use self::page::Page;
use self::problem::ProblemScreen;
use super::Options;
use super::screen::Screen;
use crate::tui::widgets::Lines;

/// The states of all screens.
#[derive(Debug)]
pub struct Screens {
    /// Overview of the traffic.
    pub overview: OverviewScreen,
    /// The table of queue pairs.
    pub flows: Table,
    /// Detail of one queue pair.
    pub detail: DetailScreen,
    /// Matrix of host pairs.
    pub matrix: MatrixScreen,
    /// Links and their balance.
    pub links: LinksScreen,
    /// Bursts and steps.
    pub bursts: BurstsScreen,
    /// Events at packets.
    pub events: EventsScreen,
    /// List of findings.
    pub findings: FindingsScreen,
    /// Page of one finding.
    pub problem: ProblemScreen,
    /// Queue pairs of NICs.
    pub nic: NicScreen,
}

impl Screens {
    /// Screens without any selection.
    pub fn new(options: &Options) -> Self {
        Self {
            overview: OverviewScreen::default(),
            flows: Table::new(options),
            detail: DetailScreen::default(),
            matrix: MatrixScreen::default(),
            links: LinksScreen::default(),
            bursts: BurstsScreen::default(),
            events: EventsScreen::default(),
            findings: FindingsScreen::default(),
            problem: ProblemScreen::default(),
            nic: NicScreen::default(),
        }
    }

    /// Forgets the lines that screens keep: after every change of what they show.
    pub(super) fn forget_lines(&self) {
        let pages = Screen::all().map(|screen| self.page(screen));
        pages.filter_map(Page::kept_lines).for_each(Lines::forget);
    }

    /// The screen that is named.
    pub(super) fn page(&self, screen: Screen) -> &dyn Page {
        match screen {
            Screen::Overview => &self.overview,
            Screen::Qps => &self.flows,
            Screen::Detail => &self.detail,
            Screen::Matrix => &self.matrix,
            Screen::Links => &self.links,
            Screen::Bursts => &self.bursts,
            Screen::Events => &self.events,
            Screen::Findings => &self.findings,
            Screen::Problem => &self.problem,
            Screen::Nic => &self.nic,
        }
    }

    /// A screen, to be changed.
    pub(super) fn page_mut(&mut self, screen: Screen) -> &mut dyn Page {
        match screen {
            Screen::Overview => &mut self.overview,
            Screen::Qps => &mut self.flows,
            Screen::Detail => &mut self.detail,
            Screen::Matrix => &mut self.matrix,
            Screen::Links => &mut self.links,
            Screen::Bursts => &mut self.bursts,
            Screen::Events => &mut self.events,
            Screen::Findings => &mut self.findings,
            Screen::Problem => &mut self.problem,
            Screen::Nic => &mut self.nic,
        }
    }
}
