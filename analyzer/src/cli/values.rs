//! Parsers of option values.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::filter::{Filter, FilterError};
use crate::metrics::traffic::BIN_RANGE_NS;
use crate::source::replay::inputs::TapFiles;
use crate::source::replay::time::parse_duration;
use crate::tui::query;

/// `--speed`: data time per clock time, infinite for `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedArg(pub f64);

impl FromStr for SpeedArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(f64::INFINITY));
        }
        let number = text.strip_suffix('x').unwrap_or(text);
        let speed: Option<f64> = number.parse().ok();
        speed
            .filter(|speed| speed.is_finite() && *speed > 0.0)
            .map(Self)
            .ok_or_else(|| format!("invalid speed '{text}': write max, 1x, 10x or 0.5x"))
    }
}

pub(super) fn positive(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() { Err("must be greater than 0".into()) } else { Ok(duration) }
}

pub(super) fn parse_filter(text: &str) -> Result<Filter, FilterError> {
    Filter::source(text, query::vocabulary())
}

pub(super) fn parse_windows(text: &str) -> Result<(Duration, Duration), String> {
    let invalid = || {
        format!(
            "invalid sampling '{text}': write WINDOW/PERIOD, such as 100ms/10s, with a window of at least 1ms"
        )
    };
    let (window, period) = text.split_once('/').ok_or_else(invalid)?;
    let (window, period) = (parse_duration(window)?, parse_duration(period)?);
    let fits =
        window >= Duration::from_millis(1) && window <= period && period <= Duration::from_secs(86_400);
    if fits { Ok((window, period)) } else { Err(invalid()) }
}

pub(super) fn parse_bin(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    let fits = u64::try_from(duration.as_nanos()).is_ok_and(|ns| BIN_RANGE_NS.contains(&ns));
    if fits { Ok(duration) } else { Err(format!("invalid bin '{text}': write 100us to 1s")) }
}

/// Mbit/s of "400G" or "2500M".
pub(super) fn parse_speed_of_link(text: &str) -> Result<u64, String> {
    let (number, unit) = match (text.strip_suffix('G'), text.strip_suffix('M')) {
        (Some(number), _) => (number, 1000),
        (_, Some(number)) => (number, 1),
        _ => ("", 1),
    };
    let mbps = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    mbps.filter(|mbps| (1..=10_000_000).contains(mbps))
        .ok_or_else(|| format!("invalid link speed '{text}': write 100G, 400G or 1000M"))
}

pub(super) fn parse_flows(text: &str) -> Result<usize, String> {
    const MOST: usize = 1 << 26;
    text.parse()
        .ok()
        .filter(|n| (1..=MOST).contains(n))
        .ok_or_else(|| format!("invalid number of flows '{text}': write 1 to {MOST}"))
}

pub(super) fn parse_group(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    if names.len() < 2 || names.iter().any(String::is_empty) {
        return Err("write two links or more, separated by commas".into());
    }
    Ok(names)
}

pub(super) fn parse_rail(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((interface, name)) if !interface.is_empty() && !name.is_empty() => {
            Ok((interface.into(), name.into()))
        }
        _ => Err("write LINK=RAIL, such as eth2=rail0 or h0.pcap=rail0".into()),
    }
}

pub(super) fn parse_lldp_capture(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((interface, file)) if !interface.is_empty() && !file.is_empty() => {
            Ok((interface.into(), file.into()))
        }
        _ => Err("write IFACE=FILE, such as eth2=lldp.pcap".into()),
    }
}

pub(super) fn parse_tap(text: &str) -> Result<TapFiles, String> {
    let wanted = || "write NAME=FILE, or NAME=FILE,FILE to join files".to_owned();
    let (name, files) = text.split_once('=').ok_or_else(wanted)?;
    let files: Vec<PathBuf> = files.split(',').map(PathBuf::from).collect();
    if name.is_empty() || files.iter().any(|file| file.as_os_str().is_empty()) {
        return Err(wanted());
    }
    Ok(TapFiles { name: name.into(), files })
}

/// Always returns an error: interfaces are named with `-i`.
pub(super) fn parse_misplaced(text: &str) -> Result<String, String> {
    Err(format!("interfaces are named with -i: use -i {text}"))
}
