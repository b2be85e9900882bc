//! What the report says of marks over time, and of notifications.

use crate::analysis::{CeOverTime, Cnp, EcnOverTime, FlowId};
use crate::metrics::ecn::OverTime;
use crate::metrics::ecn::series::Bin;
use crate::sample::{FlowSample, Sample, address};
use crate::util::map::Map;

/// The flows by their slot, where a flow has to name another one.
pub(super) fn by_slot(sample: &Sample) -> Map<u32, &FlowSample> {
    let wanted = sample.metrics.ecn.as_ref().is_some_and(|ecn| !ecn.cnps.is_empty());
    sample.flows.iter().filter(|_| wanted).map(|flow| (flow.slot, flow)).collect()
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

pub(super) fn cnp(sample: &Sample, flow: &FlowSample, by_slot: &Map<u32, &FlowSample>) -> Option<Cnp> {
    let figure = sample.metrics.ecn.as_ref()?.cnps.get(&flow.slot)?;
    let answers = figure.answers.and_then(|slot| by_slot.get(&slot)).map(|flow| id(sample, flow));
    let time_ns = figure.last_ns.saturating_sub(figure.first_ns);
    let intervals = figure.count.saturating_sub(1);
    Some(Cnp {
        answers,
        per_second: (time_ns > 0 && intervals > 0).then(|| intervals as f64 * 1e9 / time_ns as f64),
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
        link: link.map(|link| link.name.clone()).unwrap_or_default(),
        direction: link.and_then(|link| link.direction),
        src: address(key.family, key.src),
        dst: address(key.family, key.dst),
        dest_qp: key.dest_qp,
    }
}
