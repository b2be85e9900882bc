//! ECN marks over time, and CNPs, as the report has them.

use crate::analysis::{CeOverTime, Cnp, EcnOverTime, FlowId};
use crate::metrics::ecn::OverTime;
use crate::metrics::ecn::series::Bin;
use crate::sample::{FlowSample, Sample, address};
use crate::util::map::{Map, Set};
use crate::util::time::NS_PER_S;

/// The flows that CNPs answer, by slot.
pub(super) fn answered(sample: &Sample) -> Map<u32, FlowId> {
    let Some(ecn) = &sample.metrics.ecn else { return Map::default() };
    let wanted: Set<u32> = ecn.cnps.values().filter_map(|figure| figure.answers).collect();
    let flows = sample.flows.iter().filter(|flow| wanted.contains(&flow.slot));
    flows.map(|flow| (flow.slot, id(sample, flow))).collect()
}

fn column(over_time: &OverTime, of: fn(&Bin) -> u32) -> Vec<u32> {
    over_time.bins.iter().map(of).collect()
}

pub(super) fn flow(sample: &Sample, slot: u32) -> Option<CeOverTime> {
    let series = &sample.metrics.ecn.as_ref()?.marks.get(&slot)?.series;
    Some(CeOverTime {
        start_ns: series.start_ns,
        bin_ns: series.bin_ns,
        capable: column(series, |bin| bin.capable),
        ce: column(series, |bin| bin.ce),
    })
}

pub(super) fn link(sample: &Sample, number: u16) -> Option<EcnOverTime> {
    let series = sample.metrics.ecn.as_ref()?.links.get(usize::from(number))?.as_ref()?;
    Some(EcnOverTime {
        start_ns: series.start_ns,
        bin_ns: series.bin_ns,
        capable: column(series, |bin| bin.capable),
        ce: column(series, |bin| bin.ce),
        cnp: column(series, |bin| bin.cnp),
    })
}

pub(super) fn cnp(sample: &Sample, slot: u32, answered: &Map<u32, FlowId>) -> Option<Cnp> {
    let figure = sample.metrics.ecn.as_ref()?.cnps.get(&slot)?;
    let answers = figure.answers.and_then(|slot| answered.get(&slot)).cloned();
    let time_ns = figure.last_ns.saturating_sub(figure.first_ns);
    let intervals = figure.count.saturating_sub(1);
    Some(Cnp {
        answers,
        per_second: (time_ns > 0 && intervals > 0)
            .then(|| intervals as f64 * NS_PER_S as f64 / time_ns as f64),
        min_interval_ns: figure.min_gap_ns,
        delay_ns: figure.delay,
        without_ce: figure.without_mark,
        rate_before_bps: figure.reaction.map(|reaction| reaction.before_bps),
        rate_after_bps: figure.reaction.map(|reaction| reaction.after_bps),
        rate_window_ns: figure.reaction.map(|reaction| reaction.window_ns),
        rate_samples: figure.reaction.map(|reaction| reaction.samples),
    })
}

fn id(sample: &Sample, flow: &FlowSample) -> FlowId {
    let key = &flow.key;
    let link = sample.links.get(usize::from(key.link));
    FlowId {
        link: link.map(|link| link.name.as_str().into()).unwrap_or_default(),
        direction: link.and_then(|link| link.direction),
        src: address(key.family, key.src),
        dst: address(key.family, key.dst),
        dest_qp: key.dest_qp,
    }
}
