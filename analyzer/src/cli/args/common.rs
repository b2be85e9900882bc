//! Options shared by all commands that count flows. Commands adapt the help where their defaults differ.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::cli::values::{parse_filter, parse_flows, parse_group, parse_rail, positive};
use crate::filter::Filter;

/// Options of the accounting and of the report.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct CommonArgs {
    /// Stop after this time
    #[arg(help_heading = "Output")]
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub duration: Option<Duration>,
    /// Count only packets that match, such as 'qp 17'
    ///
    /// RoCE packets (live: flows), such as 'host 10.0.1.0/24 and qp 17'; see Filters below.
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "EXPR", value_parser = parse_filter)]
    pub filter: Option<Filter>,
    /// Parallel links whose load balance is evaluated; repeatable
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "LINK,LINK", value_parser = parse_group)]
    pub group: Vec<Vec<String>>,
    /// Rail of a link (live: an interface, replay: a tap); repeatable
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "LINK=RAIL", value_parser = parse_rail)]
    pub rail: Vec<(String, String)>,
    /// Flow table size [default: live 65536, replay 131072]
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "N", value_parser = parse_flows)]
    pub max_flows: Option<usize>,
    /// Configuration file
    ///
    /// [default: ~/.config/rocescope/config.toml, if it exists]
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Idle timeout of flows; the totals keep their counts [default: live 10m, replay none]
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub idle: Option<Duration>,
}
